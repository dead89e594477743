"""What tells a process from a later one of its PID, and a program from the one that it replaced.

Source: proc(5), /proc/PID/stat.
"""

import os
import pathlib
from typing import Final

# After the name, which may contain spaces and brackets: fields 22, and 26 to 28.
_START_TIME: Final = 22 - 3
_PROGRAM: Final = slice(26 - 3, 28 - 3 + 1)
# The kernel lists a thread that has ended for as long as a tracer leaves it there (ptrace(2)), and
# a tenant may trace its own: tens of thousands of them would keep all samples waiting.
_THREADS: Final = 8

Identity = tuple[bytes, ...]
"""Start time, and where the kernel has laid the program's code and stack: anew with each exec.

A process may give other places for the latter at any time (PR_SET_MM_MAP: prctl_set_mm_map() in
kernel/sys.c), without any right. So a change calls for another look, and proves no other process.
"""


def identity(pid: int, *, proc: pathlib.Path = pathlib.Path("/proc")) -> Identity | None:
    """Return a process's identity; None where it has ended.

    Args:
        pid: the process, as the reader's PID namespace numbers it.
        proc: the proc file system of the same PID namespace.
    """
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return fields[_START_TIME], *fields[_PROGRAM]
    except (OSError, IndexError):
        return None


def is_same(one: Identity | None, other: Identity | None) -> bool:
    """Say whether two identities of a PID are of one process, whatever it runs; None has ended."""
    return one is not None and other is not None and one[0] == other[0]


def has_memory(pid: int, *, proc: pathlib.Path = pathlib.Path("/proc")) -> bool:
    """Say whether a process has its memory, and what it maps, still.

    One that ends loses that before its files, of which a card's driver frees memory in its own
    time. Where the main thread has ended, another one's word counts. One with more threads than a
    few has it: those of a process that ends go at once.

    Args:
        pid: the process, as the reader's PID namespace numbers it.
        proc: the proc file system of the same PID namespace.
    """
    try:
        with os.scandir(proc / str(pid) / "task") as threads:
            return any(
                number == _THREADS or _pages(each.path) for number, each in enumerate(threads)
            )
    except OSError:
        return False  # it ended while its threads were listed


def _pages(thread: str) -> int:
    try:
        with open(f"{thread}/statm", "rb") as file:
            return int(file.read().split()[0])
    except (OSError, IndexError):
        return 0
