"""Reading a file of the host's: a FIFO or a device in its place would keep its reader for ever."""

import os
import pathlib
import re
import stat
from typing import BinaryIO, Final

_PIECE_BYTES: Final = 1 << 16
# The names of descriptors that were open before us: a shell gives one for `<(command)`.
_OPENED: Final = re.compile(r"/dev/stdin|(?:/dev|/proc/self)/fd/[0-9]+")


def read(path: pathlib.Path, *, max_bytes: int = -1) -> bytes:
    """Return what a regular file has; a link to one is followed.

    Args:
        path: the file.
        max_bytes: at most so many; all of it when left out.

    Raises:
        OSError: it can't be read.
        ValueError: it is something else, or longer.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("is no regular file; put one in its place")
        return read_stream(file, max_bytes)


def read_named(path: pathlib.Path, *, max_bytes: int) -> bytes:
    """Return what a file has that a person names: a regular one, or a pipe of their shell's.

    Args:
        path: the file; `<(command)` in a shell names such a pipe.
        max_bytes: at most so many.

    Raises:
        OSError: it can't be read.
        ValueError: it is something else, or longer.
    """
    if not _OPENED.fullmatch(str(path)):
        return read(path, max_bytes=max_bytes)
    with path.open("rb") as file:
        return read_stream(file, max_bytes)


def open_at_once(path: pathlib.Path) -> BinaryIO:
    """Open a file for reading, of whichever kind, without waiting for it.

    Raises:
        BlockingIOError: a tenant holds a lease on it, which ends within fs.lease-break-time.
        OSError: it can't be opened.
    """
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")


def read_stream(file: BinaryIO, max_bytes: int) -> bytes:
    """Return all that follows in an open file; a negative `max_bytes` bounds nothing.

    Raises:
        ValueError: it is longer.
    """
    content = bytearray()
    # piece by piece: Python would make room for the whole bound before it reads a byte
    while piece := file.read(_PIECE_BYTES):
        content += piece
        if 0 <= max_bytes < len(content):
            raise ValueError(f"is longer than {max_bytes} bytes")
    return bytes(content)
