"""The form of the mapped files: mode and size, found and restored by a descriptor."""

import dataclasses
import os
import stat
from collections.abc import Mapping
from typing import Final

from gpustack.wire.mapped import ledger, two_slot_page

_GROWN_BYTES: Final = 16 << 20  # file systems give files more than they have, by their own measure


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileForm:
    """Mode and size of a file; its owner is told where it changes, and left (`restore`)."""

    mode: int
    size_bytes: int


# The container's processes run as any user, hence the ledger's mode.
FORMS: Final[Mapping[str, FileForm]] = {
    "limits": FileForm(mode=0o644, size_bytes=two_slot_page.PAGE_FILE_BYTES),
    "activity": FileForm(mode=0o644, size_bytes=two_slot_page.PAGE_FILE_BYTES),
    "ledger": FileForm(mode=0o666, size_bytes=ledger.FILE_BYTES),
}

INODES: Final = len(FORMS) + 1
"""Of a file system that is made for one container: the files, and their folder."""


def is_in_form(descriptor: int, form: FileForm) -> bool:
    """Say whether `restore` would find nothing; unlike it, this waits for no write.

    Raises:
        OSError: it can't be asked.
    """
    found = os.fstat(descriptor)
    return found.st_nlink > 0 and not _deviations(found, form)


def restore(descriptor: int, form: FileForm) -> Mapping[str, str] | None:
    """Give a file its form again, where a tenant has changed it.

    A tenant's root may give the file to another user of its own, and nothing rests on that, so the
    agent, which tells it, needs no right to take it back
    (docs/decisions/0014-files-of-a-share.md).

    A file system gives a file more blocks than its bytes need, by its own measure; those beyond
    `_GROWN_BYTES` were taken by a tenant (fallocate), and are freed.

    Returns:
        By `mode` and `size`, what was found and is restored, and by `owner` one that isn't this
        process's user; None for a file that is removed.

    Raises:
        OSError: the file can't be changed.
    """
    found = os.fstat(descriptor)
    if not found.st_nlink:
        return None
    deviations = _deviations(found, form)
    if "mode" in deviations:
        os.fchmod(descriptor, form.mode)
    if "size" in deviations:
        resize(descriptor, form.size_bytes)
    return deviations


def _deviations(found: os.stat_result, form: FileForm) -> Mapping[str, str]:
    deviations = {}
    if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
        deviations["owner"] = f"{found.st_uid}:{found.st_gid} and stays so"
    mode = stat.S_IMODE(found.st_mode)
    if mode != form.mode:
        deviations["mode"] = f"{mode:04o}, is {form.mode:04o} again"
    taken_bytes = found.st_blocks * 512  # the unit of st_blocks: stat(2)
    if found.st_size != form.size_bytes or taken_bytes > form.size_bytes + _GROWN_BYTES:
        deviations["size"] = (
            f"{found.st_size} bytes, {taken_bytes} on the disk, is {form.size_bytes} bytes again"
        )
    return deviations


def resize(fd: int, size_bytes: int) -> None:
    """Give a file its size, and free blocks beyond its end.

    On a disk, which may get full, it gets all of its blocks. A container's own file system has room
    for them, and its memory counts to who touches it first, for as long as any process has the file
    open: a tenant that keeps files of ended pods open would fill the agent's.
    """
    os.ftruncate(fd, size_bytes)
    if not has_own_file_system(fd):
        os.posix_fallocate(fd, 0, size_bytes)


def has_own_file_system(descriptor: int) -> bool:
    """Say whether a file lies on a file system that is made for one container.

    Raises:
        OSError: it can't be asked.
    """
    return os.fstatvfs(descriptor).f_files == INODES
