"""A tenant that holds the lock of a file's inode for as long as it likes.

A call that copies from or to memory which doesn't come (userfaultfd) keeps the lock meanwhile:
shared by a read with O_DIRECT, as any user may do on a file that it may read, alone by a write.
"""

import contextlib
import ctypes
import fcntl
import mmap
import os
import pathlib
import struct
import threading
from collections.abc import Iterator
from typing import Final

import pytest

# linux/userfaultfd.h
_NEW: Final = 0xAA00  # USERFAULTFD_IOC_NEW, of /dev/userfaultfd
_API: Final = 0xC018AA3F  # UFFDIO_API
_REGISTER: Final = 0xC020AA00  # UFFDIO_REGISTER
_MISSING: Final = 1  # UFFDIO_REGISTER_MODE_MISSING
_FAULT_BYTES: Final = 32  # struct uffd_msg


@contextlib.contextmanager
def held(path: pathlib.Path, *, alone: bool) -> Iterator[None]:
    """Hold the lock of a file's inode, until the block ends; the file's first page stays as it is.

    Skips the test where the kernel or the file system has no means for it.
    """
    try:
        device = os.open("/dev/userfaultfd", os.O_RDWR | os.O_CLOEXEC)
        file = os.open(path, os.O_RDWR if alone else os.O_RDONLY | os.O_DIRECT)
    except OSError as error:
        pytest.skip(f"no inode can be held: {error}")
    faults = fcntl.ioctl(device, _NEW, os.O_CLOEXEC)
    os.close(device)
    fcntl.ioctl(faults, _API, bytearray(struct.pack("QQQ", 0xAA, 0, 0)))
    size = mmap.PAGESIZE
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    fcntl.ioctl(faults, _REGISTER, bytearray(struct.pack("QQQQ", address, size, _MISSING, 0)))
    libc = ctypes.CDLL(None, use_errno=True)
    call = libc.pwrite if alone else libc.pread
    call.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long)
    # A write beyond the file's end would have to be cut off; this one is in the last page.
    offset = os.fstat(file).st_size - size if alone else 0
    tenant = threading.Thread(target=call, args=(file, address, size, offset), daemon=True)
    tenant.start()
    try:
        assert len(os.read(faults, _FAULT_BYTES)) == _FAULT_BYTES  # the call waits for its memory
        yield
    finally:
        os.close(faults)
        tenant.join()
        os.close(file)
