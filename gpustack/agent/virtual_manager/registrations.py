"""The original's RegisterVDevice: a container's limits and processes, for the library in it."""

import concurrent.futures
import logging
import threading
from collections.abc import Callable
from typing import Final

from gpustack.adapters.cri import RuntimeContainer
from gpustack.adapters.vcuda import Registration, RegistrationRefused
from gpustack.agent.cluster.pods import Pod, PodView
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.virtual_manager.callers import CallerContainers
from gpustack.agent.virtual_manager.pod_folders import PodFolderError, PodFolders
from gpustack.model.request import BadRequest
from gpustack.model.units import MEMORY_UNIT_BYTES
from gpustack.wire.annotations import annotations_of
from gpustack.wire.files.vcuda_config import VcudaConfig, encode_pids, soft_limit
from gpustack.wire.keys import Keys
from gpustack.wire.pods import finished, parse_held_limits
from gpustack.wire.quoting import quoted

logger = logging.getLogger(__name__)

# For the registrations before, and again for the disk: a connection ends after 10 s (RelayBounds).
_TURN_SECONDS: Final = 4.0
_LONGEST_SOFT_LIMIT: Final = 19  # characters: a sign and 18 digits


class Registrations:
    """Writes the files of the container that calls, whatever it says it is."""

    def __init__(
        self,
        *,
        keys: Keys,
        pods: PodView,
        inventory: CardInventory,
        callers: CallerContainers,
        folders: PodFolders,
    ) -> None:
        self._keys = keys
        self._pods = pods
        self._inventory = inventory
        self._callers = callers
        self._folders = folders
        self._lock = threading.Lock()  # guards _turns
        # By UID: a later list of processes is written later. No pod comes to those of the original.
        self._turns: dict[str, threading.Lock] = {}

    def register(self, registration: Registration) -> None:
        """Write vcuda.config and pids.config of the caller's container.

        Raises:
            RegistrationRefused: it isn't in a container of the socket's pod, says that it is
                another, or its files can't be written.
        """
        pid, pod_uid = registration.caller.pid, registration.caller.socket
        container = self._callers.container_of(pid)
        if container is None:
            raise RegistrationRefused(f"process {pid} is in no container that the runtime names")
        if container.pod_uid != pod_uid:
            raise RegistrationRefused(
                f"process {pid} is in a container of pod {container.pod_uid}, and the socket is"
                f" that of pod {pod_uid}"
            )
        folder = _folder(registration, container)
        pod = self._pods.get(pod_uid)
        if pod is None or finished(pod):
            raise RegistrationRefused(f"pod {pod_uid} has ended, or is not known yet")
        config = self._config(pod, container).encode()
        count = self._in_turn(pod_uid, lambda: self._write(pid, pod_uid, folder, config))
        logger.info(
            "registered pod_uid=%s container=%s processes=%d", pod_uid, container.name, count
        )

    def _in_turn(self, pod_uid: str, write: Callable[[], int]) -> int:
        """Write a pod's files after its earlier registrations, in a thread that may stay behind.

        The kernel keeps a file's replacement waiting while a read of the old one is under way
        (O_DIRECT), and a tenant chooses how long its read takes.
        """
        with self._lock:
            turn = self._turns.setdefault(pod_uid, threading.Lock())
        busy = f"files of pod {pod_uid} can't be replaced while one of its processes reads them"
        if not turn.acquire(timeout=_TURN_SECONDS):
            raise RegistrationRefused(busy)
        written: concurrent.futures.Future[int] = concurrent.futures.Future()

        def run() -> None:
            try:
                written.set_result(write())
            except Exception as error:
                written.set_exception(error)  # the caller raises it
            finally:
                turn.release()

        threading.Thread(target=run, name="registration", daemon=True).start()
        try:
            return written.result(_TURN_SECONDS)
        except TimeoutError as error:
            raise RegistrationRefused(busy) from error

    def _write(self, pid: int, pod_uid: str, folder: str, config: bytes) -> int:
        """Write the files of a caller's container; return how many processes it has."""
        pids = self._callers.processes_beside(pid)
        if pid not in pids:
            raise RegistrationRefused(f"process {pid}: the cgroup of its container lacks it")
        try:
            self._folders.write(pod_uid, folder, config, encode_pids(pids))
        except PodFolderError as error:
            raise RegistrationRefused(str(error)) from error
        return len(pids)

    def _config(self, pod: Pod, container: RuntimeContainer) -> VcudaConfig:
        try:
            request = parse_held_limits(self._keys, pod)
        except BadRequest as error:
            raise RegistrationRefused(str(error)) from error
        containers = () if request is None else request.containers
        asked = next((each for each in containers if each.name == container.name), None)
        if asked is None:
            raise RegistrationRefused(f"container {container.name!r} asks for no GPU")
        return VcudaConfig(
            pod_uid=container.pod_uid,
            container=container.name,
            cores=asked.cores,
            memory_bytes=asked.memory_units * MEMORY_UNIT_BYTES,
            soft_limit=self._soft_limit(pod),
            driver=self._inventory.node.driver,
        )

    def _soft_limit(self, pod: Pod) -> int | None:
        text = annotations_of(pod).get(self._keys.core_limit)
        if text is None:
            return None
        try:
            return soft_limit(text[: _LONGEST_SOFT_LIMIT + 1])
        except ValueError as error:
            field = f"metadata.annotations[{self._keys.core_limit}]"
            raise RegistrationRefused(f"{field}: {quoted(text)} {error}; write 1 to 100") from error


def _folder(registration: Registration, container: RuntimeContainer) -> str:
    """Return the name of the folder in which this caller's library looks for its files.

    Raises:
        RegistrationRefused: it names another container.
    """
    # As the original: a name, which its older libraries send, comes before an ID.
    said = registration.container_name or registration.container_id
    own = container.name if registration.container_name else container.id
    if said != own:
        raise RegistrationRefused(f"says that it is container {quoted(said)}, and is {own!r}")
    return own
