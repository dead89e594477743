"""A tmpfs on a folder: mount(2) and umount2(2), which Python doesn't have."""

import ctypes
import os
from typing import Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]
_LIBC.umount2.argtypes = [ctypes.c_char_p, ctypes.c_int]

# <sys/mount.h>
_NOSUID_NODEV_NOEXEC: Final = 2 | 4 | 8
_DETACH: Final = 2


def mount(folder: int, *, size_bytes: int, inodes: int) -> None:
    """Mount an empty tmpfs of root's alone, from which no program is run.

    Args:
        folder: a descriptor of it, so that no link leads elsewhere.
        size_bytes: of all files together, whole pages.
        inodes: of files and folders, its own among them.

    Raises:
        OSError: the kernel refuses.
    """
    options = f"size={size_bytes},nr_inodes={inodes},mode=0700".encode()
    _check(_LIBC.mount(b"gpustack", _path(folder), b"tmpfs", _NOSUID_NODEV_NOEXEC, options), folder)


def detach(folder: int) -> None:
    """Unmount what is mounted on a folder; who has it open or mounted elsewhere keeps it.

    Args:
        folder: a descriptor of what is mounted there.

    Raises:
        OSError: the kernel refuses.
    """
    _check(_LIBC.umount2(_path(folder), _DETACH), folder)


def _path(folder: int) -> bytes:
    return f"/proc/self/fd/{folder}".encode()


def _check(result: int, folder: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.readlink(_path(folder)).decode())
