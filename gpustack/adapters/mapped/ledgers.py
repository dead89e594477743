"""A share's ledger: the agent makes it whole, and reads it in a time that no tenant can extend.

The kernel looks through all locks on a file for each question about one. A read waits for the
file's blocks and, on XFS (xfs_file_buffered_read in fs/xfs/xfs_file.c), for a write to it that is
under way: these reads don't wait (RWF_NOWAIT), and `load` does, in a thread that may.
"""

import dataclasses
import errno
import fcntl
import os
import pathlib
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from gpustack.adapters.mapped.files import create, open_file
from gpustack.adapters.mapped.forms import FORMS
from gpustack.wire.mapped import ledger, two_slot_page

# The bound counts this thread's own CPU time. All 256 slots take less than a millisecond; on a file
# with 60 000 locks, which a process makes in a minute and a half, one slot takes 13 milliseconds.
_LOCKS_SECONDS: Final = 0.05

# The kernel reads no more ahead at once than the disk's read_ahead_kb, which is 128 by default.
_AHEAD_BYTES: Final = 128 << 10

# struct flock of Linux on 64-bit machines: l_type, l_whence, l_start, l_len, l_pid.
_FLOCK = struct.Struct("hh4xqqi4x")


class LockedLedgerError(two_slot_page.LayoutError):
    """A ledger has too many locks to find out which slots are in use."""


class BusyLedgerError(LockedLedgerError):
    """A ledger's blocks aren't in memory, or a write to it is under way."""


def create_ledger(
    path: pathlib.Path, uuids: Sequence[str], *, layout: int = two_slot_page.LAYOUT_VERSION
) -> None:
    """Make an empty ledger for these cards.

    On a disk it gets all of its blocks: a hole could fail a process with SIGBUS once that is full.

    Raises:
        LayoutError: more than 16 cards, one of them twice, or a UUID that isn't one.
        OSError: the file can't be written, or the disk is full.
    """
    create(path, ledger.encode(uuids, layout), FORMS["ledger"])


def read_ledger(
    path: pathlib.Path, *, clock: Callable[[], float] = time.thread_time
) -> ledger.LedgerReading:
    """Return the usage that the container's living processes have written.

    Args:
        path: the file.
        clock: CPU time of this thread, in seconds.

    Raises:
        BusyLedgerError: a read would wait.
        LockedLedgerError: the kernel takes too long to say which slots are in use.
        LayoutError: the tenant has truncated the file, overwritten its header, or made it grow.
        OSError: the file can't be read.
    """
    fd = open_ledger(path)
    try:
        return read_open_ledger(fd, clock=clock)[0]
    finally:
        os.close(fd)


def open_ledger(path: str | pathlib.Path) -> int:
    """Return a descriptor of a ledger, for reading; the caller closes it.

    Raises:
        OSError: the file can't be opened.
    """
    return open_file(path, os.O_RDONLY)


def is_whole_ledger(path: str, file: tuple[int, int]) -> bool:
    """Say whether this device and inode lie at a path, with the size of a ledger.

    Raises:
        OSError: the file is gone.
    """
    status = os.stat(path, follow_symlinks=False)
    return (status.st_dev, status.st_ino) == file and status.st_size == ledger.FILE_BYTES


def read_ledger_head(fd: int) -> bytes:
    """Return a ledger's first bytes, by which a change of its slots shows (`ledger.changed`).

    Raises:
        BusyLedgerError: a read would wait.
        LayoutError: the tenant has cut them off; it may put them back at any moment.
        OSError: the file can't be read.
    """
    head = _read_now(fd, ledger.HEAD_BYTES, 0)
    if len(head) < ledger.HEAD_BYTES:
        raise two_slot_page.LayoutError(f"ledger ends after {len(head)} bytes")
    return head


def load(fd: int) -> None:
    """Bring a file's blocks into memory; the tenant decides how long the read waits.

    Raises:
        OSError: they can't be read.
    """
    for offset in range(0, ledger.FILE_BYTES, _AHEAD_BYTES):
        os.posix_fadvise(fd, offset, _AHEAD_BYTES, os.POSIX_FADV_WILLNEED)


def read_open_ledger(
    fd: int, *, clock: Callable[[], float] = time.thread_time
) -> tuple[ledger.LedgerReading, bytes, tuple[int, ...]]:
    """Return a ledger's usage, its head and the numbers of the slots that aren't empty.

    Raises: as `read_ledger`.
    """
    data = _read_now(fd, ledger.FILE_BYTES + 1, 0)
    slots = ledger.used_slots(data) if len(data) == ledger.FILE_BYTES else ()
    alive = frozenset(_locked(fd, slots, clock))
    reading, head = ledger.decode(data, alive), data[: ledger.HEAD_BYTES]
    false_sums = ledger.false_sums(data, read_ledger_head(fd), slots)
    return dataclasses.replace(reading, false_sums=false_sums), head, slots


def read_ledger_slots(
    fd: int, head: bytes, slots: Sequence[int], *, clock: Callable[[], float] = time.thread_time
) -> ledger.LedgerReading:
    """Return the usage in these slots of a ledger, of which `head` was read before.

    Raises: as `read_ledger`.
    """
    living = {
        index: _read_now(fd, ledger.SLOT_BYTES, ledger.slot_offset(index))
        for index in _locked(fd, slots, clock)
    }
    if any(len(slot) < ledger.SLOT_BYTES for slot in living.values()):
        raise two_slot_page.LayoutError("ledger ends within a slot")
    return ledger.decode_slots(head, living)


def _read_now(fd: int, size_bytes: int, offset: int) -> bytes:
    data = bytearray(size_bytes)
    try:
        count = os.preadv(fd, [data], offset, os.RWF_NOWAIT)
    except BlockingIOError as error:
        raise BusyLedgerError("a read of the ledger would wait") from error
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        count = os.preadv(fd, [data], offset)  # a tmpfs has no such flag, and its reads don't wait
    if count < size_bytes and offset + count < os.fstat(fd).st_size:
        raise BusyLedgerError("a part of the ledger is not in memory")
    return bytes(data[:count])


def _locked(fd: int, slots: Sequence[int], clock: Callable[[], float]) -> Iterator[int]:
    """Yield the numbers of the slots that a process has locked."""
    until = clock() + _LOCKS_SECONDS
    for index in slots:
        if clock() > until:
            raise LockedLedgerError("ledger has too many locks")
        if _is_locked(fd, ledger.slot_offset(index)):
            yield index


def _is_locked(fd: int, offset: int) -> bool:
    """Return whether any process, in any PID namespace, holds a lock on one byte."""
    query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)
    answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, query)
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)
