"""The real driver's libraries, without a card: what Debian's non-free packages hold.

They answer dlsym and cuGetProcAddress as on a GPU host, and everything else with an error.
"""

import pathlib
from collections.abc import Mapping
from typing import Final

from tests.hook.drivers.debian import Package, unpacked
from tests.testbed import paths, progress


def _packages(suite: str, *names: str) -> tuple[Package, ...]:
    return tuple(Package(suite=suite, name=name, component="non-free") for name in names)


# The oldest series that we support, the one that our notes measure, and the newest that a released
# Debian has.
SERIES: Final[Mapping[str, tuple[Package, ...]]] = {
    "470": _packages("bookworm", "libnvidia-tesla-470-cuda1", "libnvidia-tesla-470-ml1"),
    "535": _packages("bookworm", "libcuda1", "libnvidia-ml1"),
    "550": _packages("trixie", "libcuda1", "libnvidia-ml1"),
}


def libraries(series: str) -> pathlib.Path:
    """Return a folder with libcuda.so.1 and libnvidia-ml.so.1 of a driver series."""
    folder = paths.cache("driver-files") / series
    with progress.exclusive(f"driver-{series}"):
        folder.mkdir(exist_ok=True)
        for package, soname in zip(SERIES[series], SONAMES, strict=True):
            link = folder / soname
            if not link.exists():
                stem = soname.removesuffix("1")
                (file,) = (
                    path
                    for path in unpacked(package).rglob(f"{stem}{series}.*")
                    if not path.is_symlink()
                )
                link.unlink(missing_ok=True)
                link.symlink_to(file)
    return folder


SONAMES: Final = ("libcuda.so.1", "libnvidia-ml.so.1")
