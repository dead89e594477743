"""The driver volume of the driver that runs at the moment, and the end of those of earlier ones.

A driver may be replaced while the agent runs: its kernel module is unloaded, which takes that no
process uses a card, and another is loaded. Containers that run keep the volume of the driver that
they were given, and new ones get the new driver's, which is built before the first asks. A volume
is checked whenever it is given: a file of it may have been damaged or taken away.
"""

import logging
import os
import pathlib
import re
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gpustack.agent.node import driver_volume
from gpustack.agent.node.driver_files import DriverFilesError, Library

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 5.0  # how soon another driver's volume is built
_COLLECT_SECONDS: Final = 600.0  # how often unused volumes are looked for

# Of all namespaces together; a namespace of a container has some 5 KB, a host's some 50.
_MOUNTS_BYTES: Final = 64 << 20

_VERSION: Final = re.compile(r"\d{3,4}\.\d{1,4}(\.\d{1,4})?")

# Names of a volume, of a damaged one that was moved aside, and of one that is being built.
_VOLUME: Final = re.compile(r"\.?\d{3,4}\.\d{1,4}(\.\d{1,4})?(\.[A-Za-z0-9_-]+)?")

_Stamp = tuple[tuple[str, int, int, int], ...]  # of each file: name, inode, bytes, time in ns


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFiles:
    """The files of one driver version on the host."""

    libraries: Sequence[Library]
    binaries: Sequence[pathlib.Path]


def running_version(nvml: Callable[[], str], module: pathlib.Path) -> str:
    """Return the version of the driver that runs: the kernel module's, or else what NVML says.

    The loaded module is older than the files after an upgrade that waits for the next boot, and
    the files of its own version are the ones that work with it.

    Args:
        nvml: what NVML says.
        module: the file with the version of the loaded module.
    """
    try:
        text = module.read_text("ascii").strip()
    except (OSError, ValueError):
        return nvml()
    return text if _VERSION.fullmatch(text) else nvml()


class DriverVolumes:
    """All volumes below one root.

    Args:
        root: their folder.
        version: returns the version of the driver that runs.
        locate: finds the files of a version; raises `DriverFilesError`.
        used: returns the names below `root` that containers have or may get again; None where that
            isn't known.
    """

    def __init__(
        self,
        root: pathlib.Path,
        *,
        version: Callable[[], str],
        locate: Callable[[str], DriverFiles],
        used: Callable[[frozenset[str]], frozenset[str] | None],
    ) -> None:
        self.root = root
        self._version = version
        self._locate = locate
        self._used = used
        self._lock = threading.Lock()  # guards what follows, and the folders
        self._sound: tuple[pathlib.Path, _Stamp | None] | None = None
        self._told = ""

    def current(self) -> pathlib.Path:
        """Return the volume of the driver that runs; built, or built again, where that is needed.

        Raises:
            DriverFilesError: its files can't be found or laid out.
        """
        with self._lock:
            volume = self.root / self._version()
            stamp = _stamp(volume)
            if stamp is None or self._sound != (volume, stamp):
                self._build(volume)
                self._sound = (volume, _stamp(volume))
            return volume

    def run(self, stop: threading.Event) -> None:
        """Build the volume of each driver that comes; remove those that are not used any more."""
        looks = 0
        while not stop.wait(_LOOK_SECONDS):
            try:
                self.current()
                self._told = ""
            except DriverFilesError as error:
                if str(error) != self._told:
                    logger.warning("no volume for new containers: %s", error)
                self._told = str(error)
            looks += 1
            if looks % int(_COLLECT_SECONDS / _LOOK_SECONDS) == 1:
                self.collect()

    def collect(self) -> None:
        """Remove the volumes that no container has, and none that starts again would get."""
        try:
            names = frozenset(each.name for each in self.root.iterdir())
        except FileNotFoundError:
            return
        found = frozenset(filter(_VOLUME.fullmatch, names)) - {self._version()}
        used = self._used(found) if found else frozenset()
        if used is None:
            return
        with self._lock:
            # One that a container has got meanwhile is that of the driver that runs now.
            unused = [self.root / name for name in sorted(found - used - {self._version()})]
            away = [_put_away(each) for each in unused]
        # A tenant may read a file of it for long, which keeps its removal waiting (vfs_unlink in
        # fs/namei.c takes the inode's lock): no Allocate waits for that.
        for each in filter(None, away):
            _remove(each)

    def _build(self, volume: pathlib.Path) -> None:
        try:
            files = self._locate(volume.name)
        except DriverFilesError:
            # The host's files are another version's already; a volume of this one may be there.
            if not driver_volume.is_whole(volume):
                raise
            return
        driver_volume.build(
            root=self.root,
            version=volume.name,
            libraries=files.libraries,
            binaries=files.binaries,
        )


def mounted(names: frozenset[str], root: pathlib.Path, proc: pathlib.Path) -> frozenset[str] | None:
    """Return which folders below `root` a process has mounted, in any mount namespace.

    None where root may not read them, or where that takes too much: a tenant chooses the length of
    its mounts' paths.

    Args:
        names: of the folders.
        root: where they lie.
        proc: the proc file system.
    """
    found: set[str] = set()
    seen: set[tuple[str, ...]] = set()
    ends = {name: f"/{root.name}/{name}".encode() for name in names}
    left = _MOUNTS_BYTES
    for process in filter(lambda each: each.name.isdecimal(), proc.iterdir()):
        try:
            view = _view(process)
            if view in seen:
                continue
            with (process / "mountinfo").open("rb") as file:
                while left > 0 and (line := file.readline(left)):
                    left -= len(line)
                    found.update(name for name, end in ends.items() if _is_mounted(line, end))
            seen.add(view)  # now: it may have ended, and others see the same
        except PermissionError as error:
            logger.warning("old driver volumes stay: %s", error)
            return None
        except OSError:
            continue  # it ended meanwhile
        if left <= 0:
            logger.warning("old driver volumes stay: the mounts of this host are too long to read")
            return None
    return frozenset(found)


def _view(process: pathlib.Path) -> tuple[str, ...]:
    """Return what tells processes apart that see different mounts."""
    try:
        # A process with a root of its own (chroot) sees other mounts than its neighbours.
        return tuple(os.readlink(process / each) for each in ("ns/mnt", "root"))
    # Root may not, in a container; and whoever may chroot has a root that is too deep to name.
    except OSError:
        return (process.name,)  # its mounts are for everyone to read, unless it has ended


def _is_mounted(line: bytes, end: bytes) -> bool:
    """Say whether a line's mount is of a folder with this end, or of one below it.

    The fourth field of a line is the folder within its file system (proc_pid_mountinfo(5)).
    """
    if line.count(b" ") < 4:
        return False
    root = line.split(b" ", 4)[3]
    return root.endswith(end) or end + b"/" in root


def _stamp(volume: pathlib.Path) -> _Stamp | None:
    """Return what shows a change of the volume; None where it isn't there."""
    try:
        paths = [path for folder in ("bin", "lib64") for path in (volume / folder).iterdir()]
        found = ((path, path.stat(follow_symlinks=False)) for path in sorted(paths))
        return tuple(
            (f"{path.parent.name}/{path.name}", each.st_ino, each.st_size, each.st_mtime_ns)
            for path, each in found
        )
    except OSError:
        return None


def _put_away(volume: pathlib.Path) -> pathlib.Path | None:
    """Give a volume a name that no volume has, so that none is left by half; None: not possible."""
    away = volume.with_name(f".{volume.name.lstrip('.')}.removed")
    try:
        return volume if volume == away else volume.rename(away)
    except OSError as error:
        logger.warning("an unused driver volume is left: %s", error)
        return None


def _remove(volume: pathlib.Path) -> None:
    try:
        shutil.rmtree(volume)
    except OSError as error:
        logger.warning("an unused driver volume is left: %s", error)
    else:
        logger.info("unused driver volume removed path=%s", volume)
