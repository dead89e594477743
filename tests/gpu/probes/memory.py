"""A program that takes memory of the card when told to: memory.py driver|LIBCUDART.

It knows nothing of the hook. Reads one word a line and answers each with a line of JSON; an answer
that isn't a number or a list is the error that the driver or the runtime gave.
"""

import ctypes
import json
import sys

MIB = 1 << 20
# From large pieces down to the smallest that the driver has no pages to share for.
PIECES = (256 * MIB, 32 * MIB, 2 * MIB)
OUT_OF_MEMORY = 2  # of both


class Refused(Exception):
    """A call failed; the text is the error's name."""


class Driver:
    """The driver's own interface."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._check(self._library.cuInit(0))
        context = ctypes.c_void_p()
        self._check(self._library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        self._check(self._library.cuCtxSetCurrent(context))

    def _check(self, code: int) -> None:
        if code:
            raise Refused(f"CUDA_ERROR {code}")

    def allocate(self, size: int) -> ctypes.c_void_p | None:
        pointer = ctypes.c_void_p()
        code = self._library.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
        if code == OUT_OF_MEMORY:
            return None
        self._check(code)
        return pointer

    def free(self, pointer: ctypes.c_void_p) -> None:
        self._check(self._library.cuMemFree_v2(pointer))

    def info(self) -> list[int]:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._check(self._library.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
        return [free.value, total.value]

    def second_context(self) -> int:
        """Make one more context; returns nothing worth knowing."""
        context = ctypes.c_void_p()
        self._check(self._library.cuCtxCreate_v2(ctypes.byref(context), 0, 0))
        return 0


class Runtime:
    """NVIDIA's runtime of one version."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.cudaGetErrorName.restype = ctypes.c_char_p
        self._check(self._library.cudaFree(None))  # makes its context

    def _check(self, code: int) -> None:
        if code:
            raise Refused(self._library.cudaGetErrorName(code).decode())

    def allocate(self, size: int) -> ctypes.c_void_p | None:
        pointer = ctypes.c_void_p()
        code = self._library.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size))
        if code == OUT_OF_MEMORY:
            self._library.cudaGetLastError()
            return None
        self._check(code)
        return pointer

    def free(self, pointer: ctypes.c_void_p) -> None:
        self._check(self._library.cudaFree(pointer))

    def info(self) -> list[int]:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._check(self._library.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)))
        return [free.value, total.value]


def fill(device: Driver | Runtime, held: list[ctypes.c_void_p]) -> int:
    """Take pieces until the smallest is refused; returns their sum, bytes."""
    taken = 0
    for piece in PIECES:
        while (pointer := device.allocate(piece)) is not None:
            held.append(pointer)
            taken += piece
    return taken


def answer(device: Driver | Runtime, held: list[ctypes.c_void_p], word: str) -> int | list[int]:
    if word == "fill":
        return fill(device, held)
    if word == "free":
        while held:
            device.free(held.pop())
        return 0
    if word == "context" and isinstance(device, Driver):
        return device.second_context()
    return device.info()


def main() -> None:
    held: list[ctypes.c_void_p] = []
    device: Driver | Runtime | None = None
    for line in sys.stdin:
        try:
            if device is None:
                device = Driver() if sys.argv[1] == "driver" else Runtime(sys.argv[1])
            said: object = answer(device, held, line.strip())
        except Refused as error:
            said = str(error)
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
