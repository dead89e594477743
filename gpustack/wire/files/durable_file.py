"""A file that is replaced as a whole: written beside, made durable, and renamed."""

import errno
import hashlib
import json
import os
import pathlib
from typing import Any, Final

_REMEDIES: Final = {
    errno.ENOSPC: "free space on that disk",
    errno.EDQUOT: "free space on that disk, or raise the quota",
    errno.EROFS: "mount that disk for writing; `dmesg` says why the kernel stopped it",
}


def replace(path: pathlib.Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file; after it returns, the new one survives a power cut.

    Args:
        path: a file in a folder that is there; beside it, `.NAME.new` is ours.
        content: all of the new file.
        mode: of the new file, with any umask.

    Raises:
        OSError: the disk refuses; the old one stands.
    """
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600)
    try:
        write_all(descriptor, content)
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.replace(path)
    # The rename is only as durable as its folder.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of the data, however little the kernel takes at once."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def checksum(data: Any) -> str:
    """Return the checksum of JSON values, over their canonical form."""
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    return "sha256:" + hashlib.sha256(canonical).hexdigest()


def refusal(path: pathlib.Path, error: OSError) -> str:
    """Return why the disk refused a file, as `explained` does."""
    return f"{path}: {explained(error)}"


def explained(error: Exception) -> str:
    """Return an error's text, and what to do where it is one of a disk and that is known."""
    remedy = _REMEDIES.get(error.errno or 0) if isinstance(error, OSError) else None
    return f"{error}; {remedy}" if remedy else str(error)


def obstacle(folder: pathlib.Path, size_bytes: int) -> str:
    """Return why no file of a size can be written in a folder; empty where nothing shows.

    Nothing is written: a disk may refuse all the same.
    """
    try:
        disk = os.statvfs(folder)
    except OSError as error:
        return refusal(folder, error)
    code = 0
    if disk.f_flag & os.ST_RDONLY:
        code = errno.EROFS
    elif disk.f_blocks and disk.f_bfree * disk.f_frsize < size_bytes:
        code = errno.ENOSPC
    return refusal(folder, OSError(code, os.strerror(code))) if code else ""
