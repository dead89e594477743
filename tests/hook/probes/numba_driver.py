# mypy: disable-error-code="import-not-found"
"""Numba's own driver module, below its compiler: ctypes, dlsym for every name."""

import contextlib
import ctypes
from typing import Any

import numpy
from numba import cuda
from numba.cuda.cudadrv import devices, driver

from tests.hook.probes.tracing import PTX, Trace

MIB = 1 << 20


def current() -> int | None:
    handle = ctypes.c_void_p()
    ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(handle))
    return handle.value


def fill(trace: Trace, context: Any) -> None:
    """Out of memory, at the same request with and without us."""
    taken = []
    with contextlib.suppress(driver.CudaAPIError):
        while True:
            taken.append(context.memalloc(256 * MIB))
    trace.say(len(taken), 2)
    try:
        context.memalloc(256 * MIB)
    except driver.CudaAPIError as error:
        trace.say("memalloc", error.code)


def main() -> None:
    trace = Trace(current)
    trace.say(driver.driver.get_device_count(), driver.driver.get_version())
    context = trace.call(devices.get_context)
    trace.say(*trace.call(context.get_memory_info))
    memory = trace.call(context.memalloc, 10 * MIB)
    trace.say(*context.get_memory_info())
    sent, back = ctypes.create_string_buffer(b"0123456789abcde"), ctypes.create_string_buffer(16)
    trace.call(driver.host_to_device, memory, sent, 16)
    trace.call(driver.device_to_host, back, memory, 16)
    trace.say(back.raw)
    module = trace.call(context.create_module_ptx, PTX)
    function = module.get_function("empty_10us")
    stream = trace.call(context.create_stream)
    for on in (0, stream.handle.value):
        arguments: tuple[Any, ...] = (function.handle, 1, 1, 1, 32, 1, 1, 0, on, [])
        trace.call(driver.launch_kernel, *arguments)
    trace.call(context.synchronize)
    trace.say(*cuda.to_device(numpy.arange(10)).copy_to_host().tolist())
    fill(trace, context)


if __name__ == "__main__":
    main()
