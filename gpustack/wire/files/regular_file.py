"""Reading a file of the host's: a FIFO or a device in its place would keep its reader for ever."""

import os
import pathlib
import stat


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
            raise ValueError("is no regular file; remove it")
        content = file.read(max_bytes + 1 if max_bytes >= 0 else -1)
    if 0 <= max_bytes < len(content):
        raise ValueError(f"longer than {max_bytes} bytes")
    return content
