"""The folder of each share on the host: limits, activity and ledger, as the container maps them.

Only root on the host gets there: a container's processes run as any user, so its ledger is for
all to write. The files are mounted one by one, so they are made once and from then on changed in
place: a mounted file doesn't follow a rename. A pod's folders go when the pod does.

A folder is a tmpfs with room for exactly these files. Of a file that a container has mounted no
second one fits there: what has to be made anew is made in a new tmpfs, all three together; or in a
new folder of the host's disk, for a file that is replaced there waits for a write to the old one.
"""

import contextlib
import functools
import logging
import pathlib
import stat
import threading
from collections.abc import Callable
from typing import TypeVar

from gpustack.adapters import mapped
from gpustack.adapters.mount_helper import MountError
from gpustack.agent.containers.held_files import HeldFiles
from gpustack.agent.mounts.old_folders import remove_folder
from gpustack.agent.mounts.share_mounts import ShareMounts
from gpustack.model.errors import GpustackError
from gpustack.model.placement import ContainerPlacement
from gpustack.model.units import MEMORY_UNIT_BYTES
from gpustack.wire.mapped import two_slot_page
from gpustack.wire.mapped.activity import Activity, CardActivity
from gpustack.wire.mapped.limits import DeviceLimit, Limits
from gpustack.wire.mapped.two_slot_page import LAYOUT_VERSION, LayoutError, NewerLayoutError

logger = logging.getLogger(__name__)

_FULL_PERCENT = 100
_ALL_FILES = frozenset(mapped.FORMS)

_T = TypeVar("_T")


class LimitsFilesError(GpustackError):
    """A container's files can't be written."""


class LimitsFiles:
    """All container folders below one root: `<root>/<podUID>/<container>/`.

    Args:
        root: where they lie; made when missing.
        context_bytes: what one CUDA context takes on this host's cards, until measured.
        may_run: says whether a container (pod's UID, container's name) may run at the moment.
        held: holds the files open.
        mounts: of a tmpfs on each folder.
    """

    def __init__(
        self,
        root: pathlib.Path,
        *,
        context_bytes: int,
        may_run: Callable[[str, str], bool],
        held: HeldFiles,
        mounts: ShareMounts,
    ) -> None:
        self._root = root
        self._context_bytes = context_bytes
        self._may_run = may_run
        self.held = held
        self._mounts = mounts
        self._lock = threading.Lock()  # a limits file has one writer at a time
        self._make_root()

    def path(self, pod_uid: str, container: str) -> pathlib.Path:
        """Return a container's folder, whether it exists or not."""
        return self._root / pod_uid / container

    def prepare(
        self,
        pod_uid: str,
        placement: ContainerPlacement,
        burst_percent: int | None,
        layout: int = LAYOUT_VERSION,
    ) -> pathlib.Path:
        """Make or refresh a share's three files and return their folder.

        A readable file is kept: processes of this container may be alive and charged in its
        ledger. An unreadable file, after a power cut for instance, is made anew while no process
        of the container runs; a running process goes on with the file that it has mapped. So is a
        file of another layout than the container's hook reads. Files that a newer agent made are
        left alone, and so is a folder without a tmpfs while its files are good.

        Args:
            pod_uid: the container's pod.
            placement: its cards.
            burst_percent: the ceiling that its pod asks for.
            layout: of new files: the newest that its hook reads and the agent that chose it knew.

        Raises:
            LimitsFilesError: the disk refused, the limits of a container that runs can't be read,
            a newer agent made them, or the record of files that are gone, or no tmpfs is mounted.
        """
        folder = self.path(pod_uid, placement.name)
        limits = self._limits(placement, burst_percent)
        cards = tuple(CardActivity(uuid=uuid) for uuid in placement.uuids)
        activity = Activity(sampled_ns=0, cards=cards)
        try:
            with self._lock:
                self._make_root()
                for each in (folder.parent, folder):
                    _make_private(each)
                idle = functools.cache(lambda: not self._may_run(pod_uid, placement.name))
                _leave_newer(folder)
                before = _read(mapped.read_limits, folder / "limits", idle, layout)
                missing = {"limits"} if before is None else set()
                if _is_missing(mapped.read_activity, folder / "activity", idle, layout):
                    missing.add("activity")
                if _is_missing(mapped.read_ledger, folder / "ledger", idle, layout):
                    missing.add("ledger")
                _refuse_newer(folder, lambda: missing and two_slot_page.check_layout(layout))
                if missing and (missing == _ALL_FILES or idle()):
                    self._mounts.renew(folder, self.held.let_go)
                    missing.update(_ALL_FILES)
                if "limits" in missing:
                    mapped.create_limits(folder / "limits", limits, layout=layout)
                elif before != limits:
                    mapped.publish_limits(folder / "limits", limits)
                if "activity" in missing:
                    mapped.create_activity(folder / "activity", activity, layout=layout)
                if "ledger" in missing:
                    mapped.create_ledger(folder / "ledger", placement.uuids, layout=layout)
                self.held.hold(folder)
        except (OSError, LayoutError, MountError) as error:
            raise LimitsFilesError(f"{folder}: {error}") from error
        return folder

    def limits(self, pod_uid: str, container: str) -> Limits | None:
        """Return the limits in force, None where there are none that can be read.

        Raises:
            BlockingIOError: the container holds a lease on them.
            NewerLayoutError: a newer agent made them.
        """
        try:
            return mapped.read_limits(self.path(pod_uid, container) / "limits")
        except (BlockingIOError, NewerLayoutError):
            raise
        except (OSError, LayoutError):
            return None

    def differing(
        self, pod_uid: str, placement: ContainerPlacement, burst_percent: int | None
    ) -> tuple[str, ...]:
        """Return which of `limits` and `ledger` aren't what `prepare` makes for this share.

        A file that its tenant keeps from being read is passed over.
        """
        folder = self.path(pod_uid, placement.name)
        checks = {
            "limits": lambda: (
                mapped.read_limits(folder / "limits") == self._limits(placement, burst_percent)
            ),
            "ledger": lambda: (
                tuple(card.uuid for card in mapped.read_ledger(folder / "ledger").cards)
                == placement.uuids
            ),
        }
        return tuple(name for name, agrees in checks.items() if not _agrees(agrees))

    def remove(self, pod_uid: str) -> None:
        """Remove all folders of a pod.

        Raises:
            LimitsFilesError: the disk refused, or a tmpfs is still mounted.
        """
        folder = self._root / pod_uid
        try:
            self._mounts.remove(folder, self.held.let_go)
            remove_folder(folder)
        except FileNotFoundError:
            return
        except (OSError, MountError) as error:
            raise LimitsFilesError(f"{folder}: {error}") from error
        logger.info("container folders removed pod_uid=%s", pod_uid)

    def pods(self) -> frozenset[str]:
        """Return the UIDs of the pods that have a folder."""
        self._make_root()
        return frozenset(entry.name for entry in self._root.iterdir() if entry.is_dir())

    def _make_root(self) -> None:
        self._root.parent.mkdir(parents=True, exist_ok=True)
        _make_private(self._root)

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


def _make_private(folder: pathlib.Path) -> None:
    """Make a folder that none but its owner may enter; an earlier version let all users in."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if stat.S_IMODE(folder.stat().st_mode) != 0o700:
        folder.chmod(0o700)


def _leave_newer(folder: pathlib.Path) -> None:
    """Refuse to touch files that a newer agent made. The ledger's word is its tenant's.

    Raises:
        LimitsFilesError: naming the file and its layout.
    """
    reads: tuple[tuple[str, Callable[[pathlib.Path], object]], ...] = (
        ("limits", mapped.read_limits),
        ("activity", mapped.read_activity),
    )
    for name, read in reads:
        with contextlib.suppress(OSError, LayoutError):  # missing or damaged: the caller sees to it
            _refuse_newer(folder / name, functools.partial(read, folder / name))


def _refuse_newer(path: pathlib.Path, check: Callable[[], object]) -> None:
    """Word the refusal of what only a newer agent may write.

    Raises:
        LimitsFilesError: naming what it is and its layout.
    """
    try:
        check()
    except NewerLayoutError as error:
        text = f"{path}: {error}; a newer agent made it: run that one, or delete the pod"
        raise LimitsFilesError(text) from error


def _read(
    read: Callable[[pathlib.Path], _T],
    path: pathlib.Path,
    idle: Callable[[], bool],
    layout: int,
) -> _T | None:
    """Return a file's value; None for a file that has to be made, because it is unused.

    Raises:
        BusyLedgerError: a read would wait.
        LimitsFilesError: it can't be read, and its container may run.
    """
    try:
        value = read(path)
        return value if mapped.read_layout(path) == layout or not idle() else None
    except FileNotFoundError:
        return None
    except mapped.BusyLedgerError:
        raise
    except (OSError, LayoutError) as error:
        if not idle():
            text = f"{path}: {error}; it is made anew once nothing of the container runs"
            raise LimitsFilesError(text) from error
        logger.warning("made anew, as it can't be read path=%s: %s", path, error)
        return None


def _agrees(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except (BlockingIOError, mapped.LockedLedgerError):
        return True
    except (OSError, LayoutError):
        return False


def _is_missing(
    read: Callable[[pathlib.Path], object],
    path: pathlib.Path,
    idle: Callable[[], bool],
    layout: int,
) -> bool:
    """Say whether a file has to be made; one that a running container has damaged stays."""
    try:
        return _read(read, path, idle, layout) is None
    except mapped.BusyLedgerError:
        # It is not in memory, as after a boot, or a tenant writes to it for as long as it likes.
        # Nothing of the container runs, so all that it would say is a debt of at most seconds.
        return idle()
    except LimitsFilesError as error:
        logger.debug("left as it is: %s", error)  # an Event on its pod names the damage
        return False
