"""The folder of each share on the host: limits, activity and ledger, as the container maps them.

Nobody else on the host gets there: a container's processes run as any user, so its ledger is for
all to write. The files are mounted one by one, so they are made once and from then on changed in
place: a mounted file doesn't follow a rename. What is left of a pod goes when the pod does.
"""

import logging
import pathlib
import shutil
import threading

from gpustack.adapters import mapped
from gpustack.model.errors import GpustackError
from gpustack.model.holding import ContainerPlacement
from gpustack.model.units import MEMORY_UNIT_BYTES
from gpustack.wire.activity import Activity, CardActivity
from gpustack.wire.layout import LayoutError
from gpustack.wire.limits import DeviceLimit, Limits

logger = logging.getLogger(__name__)

_FULL_PERCENT = 100


class FolderError(GpustackError):
    """A container's files can't be written."""


class ContainerFolders:
    """All container folders below one root: `<root>/<podUID>/<container>/`.

    Args:
        root: where they lie; made when missing.
        context_bytes: what one CUDA context takes on this host's cards, until measured.
    """

    def __init__(self, root: pathlib.Path, *, context_bytes: int) -> None:
        self._root = root
        self._context_bytes = context_bytes
        self._lock = threading.Lock()  # a limits file has one writer at a time
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        root.chmod(0o700)  # an earlier version let everybody in

    def path(self, pod_uid: str, container: str) -> pathlib.Path:
        """Return a container's folder, whether it exists or not."""
        return self._root / pod_uid / container

    def prepare(
        self, pod_uid: str, placement: ContainerPlacement, burst_percent: int | None
    ) -> pathlib.Path:
        """Make or refresh a share's three files and return their folder.

        A ledger that exists is kept: processes of this container may be alive and charged in it.

        Raises:
            FolderError: the disk refused, or a file there isn't ours.
        """
        folder = self.path(pod_uid, placement.name)
        try:
            with self._lock:
                folder.mkdir(mode=0o755, parents=True, exist_ok=True)
                self._write_limits(folder / "limits", self._limits(placement, burst_percent))
                _write_once(folder, placement)
        except (OSError, LayoutError) as error:
            raise FolderError(f"{folder}: {error}") from error
        return folder

    def limits(self, pod_uid: str, container: str) -> Limits | None:
        """Return the limits in force, None where there are none that can be read."""
        try:
            return mapped.read_limits(self.path(pod_uid, container) / "limits")
        except (OSError, LayoutError):
            return None

    def remove(self, pod_uid: str) -> None:
        """Remove all that is left of a pod.

        Raises:
            FolderError: the disk refused.
        """
        folder = self._root / pod_uid
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise FolderError(f"{folder}: {error}") from error
        logger.info("container folders removed pod_uid=%s", pod_uid)

    def pods(self) -> frozenset[str]:
        """Return the UIDs of the pods that have a folder."""
        return frozenset(entry.name for entry in self._root.iterdir() if entry.is_dir())

    def _limits(self, placement: ContainerPlacement, burst_percent: int | None) -> Limits:
        burst = min(_FULL_PERCENT, max(placement.cores, burst_percent or 0))
        return Limits(
            devices=tuple(
                DeviceLimit(
                    uuid=uuid,
                    memory_bytes=placement.memory_units * MEMORY_UNIT_BYTES,
                    compute_percent=placement.cores,
                    burst_percent=burst,
                    context_bytes=self._context_bytes,
                )
                for uuid in placement.uuids
            )
        )

    def _write_limits(self, path: pathlib.Path, limits: Limits) -> None:
        try:
            if mapped.read_limits(path) != limits:
                mapped.publish_limits(path, limits)
        except FileNotFoundError:
            mapped.create_limits(path, limits)


def _write_once(folder: pathlib.Path, placement: ContainerPlacement) -> None:
    if not (folder / "activity").exists():
        cards = tuple(CardActivity(uuid=uuid) for uuid in placement.uuids)
        mapped.create_activity(folder / "activity", Activity(sampled_ns=0, cards=cards))
    if not (folder / "ledger").exists():
        mapped.create_ledger(folder / "ledger", placement.uuids)
