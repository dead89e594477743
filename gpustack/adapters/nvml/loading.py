"""Opening the library, closing it, and loading the file that is installed now.

pynvml loads the library once a process. After an upgrade of the driver the file is another one,
and the library that is mapped fits no more: so it is taken out of the process before it is opened
again. That touches two private names of pynvml, here only; a test fails when they are gone.
"""

import _ctypes
import pathlib
import re
from typing import Final

import pynvml

from gpustack.adapters.nvml.errors import NvmlError, NvmlMismatch

_LOADED_DRIVER: Final = pathlib.Path("/proc/driver/nvidia/version")
_VERSION: Final = re.compile(r"\b\d{3}\.\d+(?:\.\d+)?\b")


def start() -> None:
    """Open the library.

    Raises:
        NvmlError: no libnvidia-ml.so.1, or no driver behind it.
        NvmlMismatch: the driver is of another version.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibRmVersionMismatch as error:
        raise NvmlMismatch(
            f"NVML does not start: {error}: the installed library isn't of the loaded driver's"
            f" version ({_loaded_driver()}); boot the host, or load the new driver's modules"
        ) from error
    except pynvml.NVMLError as error:
        raise NvmlError(f"NVML does not start: {error}") from error


def stop() -> None:
    """Close the library.

    Raises:
        NvmlError: it refuses.
    """
    try:
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise NvmlError(f"NVML does not stop: {error}") from error


def unload() -> None:
    """Take the closed library out of the process; `start` then loads the installed file."""
    with pynvml.libLoadLock:
        library, pynvml.nvmlLib = pynvml.nvmlLib, None
        pynvml._nvmlGetFunctionPointer_cache.clear()
        if library is not None:
            _ctypes.dlclose(library._handle)


def _loaded_driver() -> str:
    try:
        found = _VERSION.search(_LOADED_DRIVER.read_text("utf-8", "replace"))
    except OSError as error:
        return f"{_LOADED_DRIVER}: {error.strerror}"
    return found[0] if found else f"unknown, see {_LOADED_DRIVER}"
