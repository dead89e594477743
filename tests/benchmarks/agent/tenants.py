"""GPU processes of many containers.

    python -m tests.benchmarks.agent.tenants MAPPINGS HOOK FOLDER...

A process for each FOLDER uses a card of the simulated driver, maps the hook and the container's
files, holds a slot of the ledger, and has so many other mappings. It prints their PIDs in one line,
and all end with its input.
"""

import ctypes
import fcntl
import mmap
import os
import pathlib
import signal
import struct
import sys

from gpustack.adapters import mapped
from gpustack.wire.mapped import ledger

_FLOCK = struct.Struct("hh4xqqi4x")  # struct flock of 64-bit Linux


def use_card() -> None:
    """Become a client of the driver, with a context."""
    driver = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    if driver.cuInit(0) or driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0):
        raise RuntimeError("the simulated driver gives no context")


def take_slot(path: pathlib.Path) -> int:
    descriptor = os.open(path, os.O_RDWR)
    offset = ledger.slot_offset(0)
    os.pwrite(descriptor, ledger.SLOT_HEADER.pack(0, os.getpid(), 0, 0), offset)
    lock = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
    return descriptor


def main() -> None:
    mappings, hook, folders = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    pids = []
    for name in folders:
        ready, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            live(mappings, hook, pathlib.Path(name), told)
        os.close(told)
        if os.read(ready, 1) != b"1":
            raise RuntimeError(f"the process of {name} has ended")
        os.close(ready)
        pids.append(pid)
    print(*pids, flush=True)
    sys.stdin.read()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def live(mappings: int, hook: pathlib.Path, folder: pathlib.Path, told: int) -> None:
    use_card()
    kept: list[object] = [take_slot(folder / "ledger")]
    for path in (hook / "libvcuda.so", *(folder / name for name in mapped.FORMS)):
        with path.open("rb") as file:
            kept.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
    for number in range(mappings):  # neighbours of other rights aren't merged to one
        rights = mmap.PROT_READ if number % 2 else mmap.PROT_READ | mmap.PROT_WRITE
        kept.append(mmap.mmap(-1, mmap.PAGESIZE, prot=rights))
    os.write(told, b"1")
    signal.pause()


if __name__ == "__main__":
    main()
