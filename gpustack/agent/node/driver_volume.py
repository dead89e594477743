"""The driver volume: the running driver's files in one folder that containers mount.

One folder a driver version, built aside and renamed into place, and never touched again: running
containers keep the files they have mapped, whatever is installed meanwhile. Files are hard links
where the file system allows it, else copies.
"""

import logging
import os
import pathlib
import shutil
import tempfile
from collections.abc import Sequence

from gpustack.agent.node.driver_files import DriverFilesError, Library

logger = logging.getLogger(__name__)


def build(
    *,
    root: pathlib.Path,
    version: str,
    libraries: Sequence[Library],
    binaries: Sequence[pathlib.Path],
) -> pathlib.Path:
    """Return the volume of one driver version, built now unless it is there already.

    Raises:
        DriverFilesError: the files can't be linked or copied.
    """
    volume = root / version
    if volume.is_dir():
        return volume
    try:
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
        for left in root.glob(f".{version}.*"):
            shutil.rmtree(left)  # a builder that was killed
        building = pathlib.Path(tempfile.mkdtemp(dir=root, prefix=f".{version}."))
        building.chmod(0o755)
        _fill(building, libraries, binaries)
        building.rename(volume)
    except OSError as error:
        raise DriverFilesError(f"{volume}: {error}") from error
    logger.info("driver volume built path=%s libraries=%d", volume, len(libraries))
    return volume


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
