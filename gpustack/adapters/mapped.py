"""File I/O of the three mapped files: create, publish, read.

They are made complete under a temporary name and renamed into place before a container starts;
from then on they are only written in place, since a file that is mounted into a container doesn't
follow a rename. This module maps no file: a tenant may truncate its ledger, and a mapping would
then raise SIGBUS in the agent. No open waits: root in a container may hold a lease on a file of
its own, for which the kernel would block an open for `fs.lease-break-time` (45 s); that is a
BlockingIOError. A tenant's ledger takes bounded work: its file may grow, and the kernel looks
through all locks on the file for each question about one.
"""

import fcntl
import os
import pathlib
import shutil
import struct
import time
from collections.abc import Callable, Sequence
from typing import Final

from gpustack.wire.mapped import activity, ledger, limits, two_slot_page

# Of this thread's own CPU time. All 256 slots take less than a millisecond; on a file with 60 000
# locks, which a process makes in a minute and a half, one of them takes 13.
_LOCKS_SECONDS: Final = 0.05
_GROWN_BYTES: Final = 16 << 20  # file systems give files more than they have, by their own measure

# struct flock of Linux on 64-bit machines: l_type, l_whence, l_start, l_len, l_pid.
_FLOCK = struct.Struct("hh4xqqi4x")


class LockedLedgerError(two_slot_page.LayoutError):
    """A ledger has too many locks to find out which slots are in use."""


def create_limits(path: pathlib.Path, value: limits.Limits) -> None:
    """Make a limits file, mode 0644, with ``value`` published.

    Raises:
        LayoutError: ``value`` can't be encoded.
        OSError: the file can't be written.
    """
    data = two_slot_page.encode_page(limits.MAGIC, limits.encode_body(value))
    _create(path, data, size_bytes=len(data), mode=0o644)


def publish_limits(path: pathlib.Path, value: limits.Limits) -> None:
    """Change a limits file that containers may have mapped; they see it within 250 ms.

    Raises:
        LayoutError: ``value`` can't be encoded, or ``path`` isn't a limits file of this layout.
        OSError: the file can't be opened or written.
    """
    _publish(path, limits.MAGIC, limits.encode_body(value))


def read_limits(path: pathlib.Path) -> limits.Limits:
    """Return the published limits.

    Raises:
        LayoutError: the file is torn, short, foreign or of another version.
        OSError: the file can't be read.
    """
    return limits.decode(_read(path, two_slot_page.PAGE_FILE_BYTES))


def create_activity(path: pathlib.Path, value: activity.Activity) -> None:
    """Make an activity page, mode 0644, with ``value`` published.

    Raises:
        LayoutError: ``value`` can't be encoded.
        OSError: the file can't be written.
    """
    data = two_slot_page.encode_page(activity.MAGIC, activity.encode_body(value))
    _create(path, data, size_bytes=len(data), mode=0o644)


def publish_activity(path: pathlib.Path, value: activity.Activity) -> None:
    """Change an activity page that containers may have mapped.

    Raises:
        LayoutError: ``value`` can't be encoded, or ``path`` isn't an activity page of this layout.
        OSError: the file can't be opened or written.
    """
    _publish(path, activity.MAGIC, activity.encode_body(value))


def read_activity(path: pathlib.Path) -> activity.Activity:
    """Return the published sample.

    Raises:
        LayoutError: the file is torn, short, foreign or of another version.
        OSError: the file can't be read.
    """
    return activity.decode(_read(path, two_slot_page.PAGE_FILE_BYTES))


def create_ledger(path: pathlib.Path, uuids: Sequence[str]) -> None:
    """Make an empty ledger for these cards, mode 0666, with all of its blocks allocated.

    The container's processes run as any user, hence the mode; a file with holes could fail a
    process with SIGBUS on a full disk.

    Raises:
        LayoutError: more than 16 cards, one of them twice, or a UUID that isn't one.
        OSError: the file can't be written, or the disk is full.
    """
    _create(path, ledger.encode(uuids), size_bytes=ledger.FILE_BYTES, mode=0o666)


def read_ledger(
    path: pathlib.Path, *, clock: Callable[[], float] = time.thread_time
) -> ledger.LedgerReading:
    """Return the usage that the container's living processes have written.

    Args:
        path: the file.
        clock: CPU time of this thread, in seconds.

    Raises:
        LockedLedgerError: the kernel takes too long to say which slots are in use.
        LayoutError: the tenant has truncated the file, overwritten its header, or made it grow.
        OSError: the file can't be read.
    """
    until = clock() + _LOCKS_SECONDS
    fd = _open(path, os.O_RDONLY)
    try:
        data = os.pread(fd, ledger.FILE_BYTES + 1, 0)
        if _has_grown(fd):
            raise two_slot_page.LayoutError("ledger takes more of the disk than it was given")
        alive = set()
        for index in ledger.used_slots(data) if len(data) == ledger.FILE_BYTES else ():
            if clock() > until:
                raise LockedLedgerError("ledger has too many locks")
            if _is_locked(fd, ledger.slot_offset(index)):
                alive.add(index)
    finally:
        os.close(fd)
    return ledger.decode(data, alive)


def cut_ledger(path: pathlib.Path) -> None:
    """Free the disk space that a ledger takes beyond its end; its own bytes stay.

    Raises:
        OSError: the file can't be changed.
    """
    fd = _open(path, os.O_RDWR)
    try:
        if os.fstat(fd).st_size > ledger.FILE_BYTES or _has_grown(fd):
            os.ftruncate(fd, ledger.FILE_BYTES)  # frees blocks beyond the end at the same size, too
    finally:
        os.close(fd)


def _has_grown(fd: int) -> bool:
    return os.fstat(fd).st_blocks * 512 > ledger.FILE_BYTES + _GROWN_BYTES


def _open(path: pathlib.Path, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)


def _read(path: pathlib.Path, size_bytes: int) -> bytes:
    """Return a file of this size; a longer file gives one byte more."""
    fd = _open(path, os.O_RDONLY)
    try:
        return os.pread(fd, size_bytes + 1, 0)
    finally:
        os.close(fd)


def _is_locked(fd: int, offset: int) -> bool:
    """Return whether any process, in any PID namespace, holds a lock on one byte."""
    query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)
    answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, query)
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def _create(path: pathlib.Path, data: bytes, *, size_bytes: int, mode: int) -> None:
    temporary = path.with_name(f".{path.name}.new")
    _remove_folder(temporary)
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, mode)  # open's mode would be cut by the umask
        os.posix_fallocate(fd, 0, size_bytes)
        _write_all(fd, data, 0)
    finally:
        os.close(fd)
    _remove_folder(path)
    temporary.rename(path)


def _remove_folder(path: pathlib.Path) -> None:
    """Remove a folder in a file's place: a runtime makes one where the file to mount is missing."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)


def _publish(path: pathlib.Path, magic: bytes, body: bytes) -> None:
    fd = _open(path, os.O_RDWR)
    try:
        data = os.pread(fd, two_slot_page.PAGE_FILE_BYTES + 1, 0)
        published = two_slot_page.check_page(magic, data)
        # Readers compare generations for equality only. The idle slot counts too: a dead writer
        # may have left a generation there that a reader has seen; it is not used again.
        generation = max(
            two_slot_page.SLOT_HEADER.unpack_from(data, two_slot_page.slot_offset(slot))[0]
            for slot in (0, 1)
        )
        idle = 1 - published
        slot = two_slot_page.encode_slot(body, (generation + 1) & (2**64 - 1))
        _write_all(fd, slot, two_slot_page.slot_offset(idle))
        _write_all(fd, bytes([idle]), two_slot_page.PUBLISHED_OFFSET)
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
