"""The driver volume: the running driver's files in one folder that containers mount.

Each driver version has one folder, built aside and renamed into place, and never changed again:
running containers keep the files they have mapped, whatever is installed meanwhile. Files are hard
links where the file system allows it, else copies. A volume that a power cut has emptied, or that
lacks a file of the host's, is built again.
"""

import logging
import os
import pathlib
import shutil
import tempfile
from collections.abc import Sequence
from typing import Final

from gpustack.agent.node.driver_files import DriverFilesError, Library
from gpustack.wire.files import durable_file, regular_file

logger = logging.getLogger(__name__)

_HEADER_BYTES: Final = 4096  # a block of most file systems; a library's header is in it


def build(
    *,
    root: pathlib.Path,
    version: str,
    libraries: Sequence[Library],
    binaries: Sequence[pathlib.Path],
) -> pathlib.Path:
    """Return the volume of one driver version, built now unless it is there and whole.

    Raises:
        DriverFilesError: the files can't be linked or copied.
    """
    volume = root / version
    try:
        if volume.exists() and is_whole(volume) and _has_all(volume, libraries, binaries):
            return volume
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
        for left in root.glob(f".{version}.*"):
            _remove(left)  # of a builder that was killed, or of a damaged volume
        building = pathlib.Path(tempfile.mkdtemp(dir=root, prefix=f".{version}."))
        building.chmod(0o755)
        _fill(building, libraries, binaries)
        for folder in (building / "bin", building / "lib64", building):
            _sync(folder)
        if volume.exists():
            # Moved, not removed: a container may have its other files mapped.
            aside = pathlib.Path(tempfile.mkdtemp(dir=root, prefix=f".{version}.damaged-"))
            aside.rmdir()
            volume.rename(aside)
        building.rename(volume)
        _sync(root)
    except OSError as error:
        raise DriverFilesError(durable_file.refusal(volume, error)) from error
    logger.info("driver volume built path=%s libraries=%d", volume, len(libraries))
    return volume


def is_whole(volume: pathlib.Path) -> bool:
    """Look for files that a power cut has left empty or full of zeros."""
    try:
        for folder in (volume / "bin", volume / "lib64"):
            for file in folder.iterdir():
                if not _has_content(file):
                    logger.error("driver volume is damaged file=%s: no content", file)
                    return False
    except OSError as error:
        logger.error("driver volume is damaged: %s", error)
        return False
    return True


def _has_all(
    volume: pathlib.Path, libraries: Sequence[Library], binaries: Sequence[pathlib.Path]
) -> bool:
    """Look for the host's files of this version: each is there under its names, as long as it."""
    wanted = {volume / "bin" / each.name: each for each in binaries}
    wanted |= {volume / "lib64" / each.file.name: each.file for each in libraries}
    wanted |= {volume / "lib64" / each.soname: each.file for each in libraries}
    for own, source in wanted.items():
        try:
            if own.stat().st_size == source.stat().st_size:
                continue
            logger.error("driver volume differs file=%s: not as long as %s", own, source)
        except OSError as error:
            logger.error("driver volume lacks a file: %s", error)
        return False
    return True


def _has_content(file: pathlib.Path) -> bool:
    try:
        with regular_file.open_at_once(file) as source:
            return any(source.read(_HEADER_BYTES))
    except BlockingIOError:
        return True  # a container has it, and holds a lease on it: no power cut since


def _fill(
    volume: pathlib.Path, libraries: Sequence[Library], binaries: Sequence[pathlib.Path]
) -> None:
    programs, lib64 = volume / "bin", volume / "lib64"
    programs.mkdir(mode=0o755)
    lib64.mkdir(mode=0o755)
    for binary in binaries:
        _take(binary, programs / binary.name)
    for library in libraries:
        target = lib64 / library.file.name
        if not target.exists():
            _take(library.file, target)
        # libcuda.so.535.1 <- libcuda.so.1 (what programs name) <- libcuda.so (what linkers name)
        plain = library.soname.partition(".so")[0] + ".so"
        for name in (library.soname, plain):
            link = lib64 / name
            if not link.exists():
                link.symlink_to(target.name)


def _take(source: pathlib.Path, target: pathlib.Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Another file system, or one without hard links.
        shutil.copy2(source, target)
        _sync(target)


def _remove(path: pathlib.Path) -> None:
    """Remove an unused volume; one that can't be removed does no harm."""
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        logger.warning("an earlier driver volume is left: %s", error)


def _sync(path: pathlib.Path) -> None:
    """Make a file or a folder survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
