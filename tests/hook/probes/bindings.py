# mypy: disable-error-code="import-not-found"
"""NVIDIA's own binding of the driver API (cuda-bindings), as a program would use it."""

from typing import Any

from cuda.bindings import driver

from tests.hook.probes.tracing import PTX, Trace

MIB = 1 << 20


def current() -> str:
    code, context = driver.cuCtxGetCurrent()
    return f"{code} {int(context) if context is not None else context}"


def allocate(trace: Trace, device: Any) -> None:
    _, pointer = trace.call(driver.cuMemAlloc, 10 * MIB)
    trace.call(driver.cuMemGetInfo)
    trace.call(driver.cuMemcpyHtoD, pointer, b"0123456789abcdef", 16)
    back = bytearray(16)
    trace.call(driver.cuMemcpyDtoH, back, pointer, 16)
    trace.say(back)
    trace.call(driver.cuMemAlloc, 0)
    trace.call(driver.cuMemAlloc, 1 << 40)
    trace.call(driver.cuMemAllocManaged, 2 * MIB, 1)
    trace.call(driver.cuMemAllocManaged, 2 * MIB, 99)
    trace.call(driver.cuMemAllocPitch, 1000, 100, 4)
    trace.call(driver.cuMemAllocAsync, 4 * MIB, 0)
    trace.call(driver.cuMemFree, pointer)
    trace.call(driver.cuMemFree, 0)
    trace.call(driver.cuMemGetInfo)
    trace.call(driver.cuDeviceTotalMem, device)


def launch(trace: Trace) -> None:
    _, module = trace.call(driver.cuModuleLoadData, PTX.encode() + b"\0")
    trace.call(driver.cuModuleGetFunction, module, b"missing")
    _, function = trace.call(driver.cuModuleGetFunction, module, b"empty_10us")
    _, stream = trace.call(driver.cuStreamCreate, 1)
    for on in (0, stream):
        trace.call(driver.cuLaunchKernel, function, 1, 1, 1, 32, 1, 1, 0, on, 0, 0)
    trace.call(driver.cuLaunchKernel, function, 0, 1, 1, 32, 1, 1, 0, stream, 0, 0)
    trace.call(driver.cuStreamSynchronize, stream)
    trace.call(driver.cuStreamDestroy, stream)
    trace.call(driver.cuModuleUnload, module)


def fill(trace: Trace) -> None:
    """Out of memory, at the same request with and without us."""
    taken = []
    while True:
        code, pointer = driver.cuMemAlloc(256 * MIB)
        if code != driver.CUresult.CUDA_SUCCESS:
            break
        taken.append(pointer)
    trace.say(len(taken), code)
    trace.call(driver.cuMemGetInfo)
    for pointer in taken:
        driver.cuMemFree(pointer)


def main() -> None:
    trace = Trace(current)
    trace.call(driver.cuMemAlloc, MIB)
    trace.call(driver.cuInit, 7)
    trace.call(driver.cuInit, 0)
    trace.call(driver.cuDriverGetVersion)
    trace.call(driver.cuDeviceGetCount)
    trace.call(driver.cuDeviceGet, 1)
    _, device = trace.call(driver.cuDeviceGet, 0)
    trace.call(driver.cuDeviceGetName, 64, device)
    trace.call(driver.cuMemAlloc, MIB)
    _, context = trace.call(driver.cuDevicePrimaryCtxRetain, device)
    trace.call(driver.cuCtxSetCurrent, context)
    allocate(trace, device)
    launch(trace)
    fill(trace)
    trace.call(driver.cuDevicePrimaryCtxReset, device)
    trace.call(driver.cuDevicePrimaryCtxRelease, device)
    trace.call(driver.cuMemAlloc, MIB)


if __name__ == "__main__":
    main()
