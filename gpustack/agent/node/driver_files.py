"""The files of the installed driver that a container needs, and their paths.

Libraries are looked up as the dynamic linker does: in its cache, as `ldconfig -p` prints it. A
SONAME's link leads to the file of the running driver, in Debian's layout by way of
`/etc/alternatives`; a file that carries another driver's version is left out.
"""

import dataclasses
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence

from gpustack.model.errors import GpustackError

_LDCONFIG_SECONDS = 30.0

# `	libcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1`
_CACHE_LINE = re.compile(r"^\s+(\S+) \(([^)]*)\) => (/.+)$")
_64_BIT = ("x86-64", "AArch64")

# Prefixes of SONAMEs of the driver's user space (NVIDIA driver README, "Installed Components").
LIBRARIES = (
    "libcuda.so.",
    "libcudadebugger.so.",
    "libnvidia-ml.so.",
    "libnvidia-ptxjitcompiler.so.",
    "libnvidia-nvvm.so.",
    "libnvidia-gpucomp.so.",
    "libnvidia-fatbinaryloader.so.",
    "libnvidia-compiler.so.",
    "libnvidia-opencl.so.",
    "libnvidia-cfg.so.",
    "libnvidia-allocator.so.",
    "libnvidia-encode.so.",
    "libnvidia-opticalflow.so.",
    "libnvcuvid.so.",
    "libnvidia-eglcore.so.",
    "libnvidia-glcore.so.",
    "libnvidia-glsi.so.",
    "libnvidia-glvkspirv.so.",
    "libnvidia-rtcore.so.",
    "libnvidia-tls.so.",
    "libEGL_nvidia.so.",
    "libGLX_nvidia.so.",
    "libGLESv1_CM_nvidia.so.",
    "libGLESv2_nvidia.so.",
    "libnvoptix.so.",
)
REQUIRED = ("libcuda.so.1", "libnvidia-ml.so.1")

BINARIES = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
)

# The driver's version at the end of a file name: libcuda.so.535.261.03.
_VERSION = re.compile(r"\.so\.(\d{3,}\.\d+(?:\.\d+)?)$")


class DriverFilesError(GpustackError):
    """The driver's files can't be found."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A library file and the SONAME by which programs ask for it."""

    soname: str
    file: pathlib.Path


def find_libraries(
    version: str, cache: str, names: tuple[str, ...] = LIBRARIES
) -> tuple[Library, ...]:
    """Return the driver's 64-bit libraries of this version.

    Args:
        version: of the running driver, such as 535.261.03.
        cache: what `ldconfig -p` prints.
        names: the beginnings of their SONAMEs.

    Raises:
        DriverFilesError: libcuda or libnvidia-ml of this version is not there.
    """
    found: dict[str, Library] = {}
    for soname, path in _entries(cache):
        if soname in found or not soname.startswith(names):
            continue
        file = pathlib.Path(path).resolve()
        carried = _VERSION.search(file.name)
        if file.is_file() and (carried is None or carried.group(1) == version):
            found[soname] = Library(soname=soname, file=file)
    missing = [name for name in REQUIRED if name not in found]
    if missing:
        lacking = ", ".join(missing)
        raise DriverFilesError(f"{lacking} of driver {version}: not in the dynamic linker's cache")
    return tuple(found.values())


def find_binaries(names: Iterable[str] = BINARIES) -> tuple[pathlib.Path, ...]:
    """Return the driver's programs that are installed, links resolved."""
    return tuple(
        pathlib.Path(path).resolve()
        for path in (shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/sbin") for name in names)
        if path is not None
    )


def linker_cache(command: Sequence[str] = ("/sbin/ldconfig", "-p")) -> str:
    """Return the dynamic linker's cache as text.

    Raises:
        DriverFilesError: ldconfig can't be run.
    """
    try:
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=_LDCONFIG_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise DriverFilesError(f"{' '.join(command)}: {error}") from error
    return done.stdout


def _entries(cache: str) -> Iterable[tuple[str, str]]:
    for line in cache.splitlines():
        match = _CACHE_LINE.match(line)
        if match is not None and any(word in match.group(2) for word in _64_BIT):
            yield match.group(1), match.group(3)
