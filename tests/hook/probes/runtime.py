"""NVIDIA's CUDA runtime, up to the first call that the driver refuses: runtime.py LIBCUDART."""

import ctypes
import json
import sys

MIB = 1 << 20


def main() -> None:
    runtime = ctypes.CDLL(sys.argv[1], use_errno=True)
    runtime.cudaGetErrorName.restype = ctypes.c_char_p
    number, pointer = ctypes.c_int(), ctypes.c_void_p()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    calls = (
        ("cudaDriverGetVersion", ctypes.byref(number)),
        ("cudaGetDeviceCount", ctypes.byref(number)),
        ("cudaSetDevice", ctypes.c_int(0)),
        ("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(MIB)),
        ("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total)),
        ("cudaDeviceSynchronize",),
    )
    for name, *arguments in calls:
        ctypes.set_errno(33)
        code = getattr(runtime, name)(*arguments)
        said = runtime.cudaGetErrorName(code).decode()
        print(json.dumps([name, said, number.value, total.value, bool(pointer.value)]), flush=True)


if __name__ == "__main__":
    main()
