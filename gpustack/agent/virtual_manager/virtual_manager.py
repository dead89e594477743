"""Sockets for the pods that were started under the original, and their folders' end.

A process of such a pod that initialises CUDA registers on its pod's socket, and ends where nothing
answers. So each pod that the kubelet holds by the original's answer has a socket, from the time on
when the node's pods are known, for as long as the pod is there. Folders of pods that are gone, and
those of ended containers, are removed.
"""

import functools
import logging
import threading
from collections.abc import Callable
from typing import Final

from gpustack.adapters.vcuda import VcudaServer
from gpustack.agent.cluster.pods import PodView
from gpustack.agent.identification.runtime import RuntimeView
from gpustack.agent.virtual_manager.original_containers import OriginalContainers
from gpustack.agent.virtual_manager.pod_folders import PodFolderError, PodFolders
from gpustack.wire.pods import finished

logger = logging.getLogger(__name__)

_PERIOD_SECONDS: Final = 10.0  # how soon a socket that was removed is there again
_MOST_PODS: Final = (
    512  # each has a descriptor; a kubelet takes 110 pods unless it is told otherwise
)


class VirtualManager:
    """Keeps sockets and folders as the node's pods are."""

    def __init__(
        self,
        *,
        pods: PodView,
        runtime: RuntimeView,
        originals: OriginalContainers,
        folders: PodFolders,
        server: VcudaServer,
    ) -> None:
        self._pods = pods
        self._runtime = runtime
        self._originals = originals
        self._folders = folders
        self._server = server
        self._inodes: dict[str, int] = {}  # of the sockets, by the pod's UID
        self._problems: dict[str, str] = {}  # by the name of a folder
        self._told = ""

    @property
    def sockets(self) -> int:
        """How many pods have a socket."""
        return len(self._inodes)

    @property
    def problems(self) -> int:
        """How many folders can't be used, or removed; each is tried again."""
        return len(self._problems)

    def run(self, stop: threading.Event) -> None:
        """Look at each change of a pod, and every ten seconds."""
        while not stop.is_set():
            _, version = self._pods.snapshot()
            self.look()
            self._pods.wait_or_stop(version, stop, _PERIOD_SECONDS)

    def look(self) -> None:
        """Give each pod of the original's its socket; remove what belongs to none any more."""
        if not self._pods.synced:
            return
        wanted = {uid for uid, _ in self._originals.now() if self._is_here(uid)}
        for uid in self._inodes.keys() - wanted:
            self._server.forget(uid)
            del self._inodes[uid]
        for uid in sorted(wanted):
            if not self._folders.has_socket(uid, self._inodes.get(uid, 0)):
                self._attempt(uid, self._listen)
        self._collect()

    def _listen(self, uid: str) -> None:
        if uid not in self._inodes and len(self._inodes) >= _MOST_PODS:
            raise PodFolderError(f"pod {uid}: more than {_MOST_PODS} pods of the original's")
        self._server.forget(uid)
        self._inodes.pop(uid, None)
        listener = self._folders.listen(uid)
        self._inodes[uid] = self._folders.socket_inode(uid)
        self._server.listen(uid, listener)
        logger.info("serves a pod of the original's pod_uid=%s", uid)

    def _collect(self) -> None:
        """Remove folders of pods and containers that are gone: each restart makes another.

        The folders are listed before the runtime is asked: a container that makes one in between
        is among those that it names.
        """
        try:
            names = sorted(self._folders.pods())
        except PodFolderError as error:
            self._tell(str(error))
            return
        self._tell("")
        self._problems = {name: why for name, why in self._problems.items() if name in names}
        found = {uid: self._listed(uid) for uid in names}
        living = self._runtime.containers() if found else ()
        for uid, containers in found.items():
            if living is None:
                return
            here = {each.id: each.name for each in living if each.pod_uid == uid}
            if isinstance(containers, PodFolderError):
                self._note(uid, containers)
            elif not here and not self._is_here(uid):
                self._attempt(uid, self._folders.remove)
            else:
                for name in containers.difference(here, here.values()):
                    self._attempt(uid, functools.partial(self._folders.remove_container, name=name))

    def _listed(self, uid: str) -> frozenset[str] | PodFolderError:
        """Return the names of a pod's folders of containers, or why they can't be listed."""
        try:
            return self._folders.containers(uid)
        except PodFolderError as error:
            return error

    def _tell(self, problem: str) -> None:
        """Log why folders can't be listed, once."""
        if problem and problem != self._told:
            logger.warning("folders of ended containers stay: %s", problem)
        self._told = problem

    def _is_here(self, uid: str) -> bool:
        pod = self._pods.get(uid)
        return pod is not None and not finished(pod)

    def _attempt(self, uid: str, step: Callable[[str], None]) -> None:
        """Do a step for one pod; a failure is logged once, and delays no other pod."""
        try:
            step(uid)
        except (PodFolderError, OSError) as error:
            self._note(uid, error)
        else:
            self._problems.pop(uid, None)

    def _note(self, uid: str, error: PodFolderError | OSError) -> None:
        if self._problems.get(uid) != str(error):
            logger.warning("folder of the original's pod_uid=%s: %s", uid, error)
        self._problems[uid] = str(error)
