"""The memory maps of processes, each read in a thread of its own.

The kernel keeps a reader of /proc/PID/maps waiting while the process changes its mappings:
m_start() in fs/proc/task_mmu.c takes mmap_lock, on new kernels for some mappings alone. That may
last as long as the server of a volume, or a card's driver, gives no answer within a change:
nfs_file_mmap() in fs/nfs/file.c asks for the file's attributes.
"""

import dataclasses
import pathlib
import threading
import time
from collections.abc import Collection, Mapping
from typing import Final

from gpustack.adapters import memory_maps, process
from gpustack.adapters.memory_maps import MappedFile
from gpustack.adapters.process import Identity
from gpustack.agent.identification.process_owners import Owner
from gpustack.model.errors import GpustackError

# The most mappings that the kernel allows take half of it.
_WAIT_SECONDS: Final = 0.1
_MOST_THREADS: Final = 256
# Where containers have filled those together, each other one still has a thread of its own.
_MOST_WITH_FIRSTS: Final = 2 * _MOST_THREADS
_MOST_OF_ONE: Final = 32  # container: it keeps no other's from being read


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SeenProcesses:
    """The state of a container's processes at the last look, by host PID.

    Attributes:
        reported: processes that have been reported, with their identity, where they have one,
            and the reason; they aren't looked at again.
        strange: processes that lacked its files: reported when they still do at the next look.
        looked: processes that have been looked at, or tried in vain, until all have been: the
            others come first.
        good: processes that map its files, with their identity and the time of the next look.
    """

    reported: Mapping[int, tuple[Identity | None, str]] = dataclasses.field(default_factory=dict)
    strange: frozenset[int] = frozenset()
    looked: frozenset[int] = frozenset()
    good: Mapping[int, tuple[Identity, float]] = dataclasses.field(default_factory=dict)


NOTHING_SEEN: Final = SeenProcesses()


class MapsBusyError(GpustackError):
    """The kernel keeps the reader of a process's maps waiting."""


class _Reading:
    """One process's maps, once they are there."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.ended = threading.Event()
        self.files: frozenset[MappedFile] | None = None
        self.cpu_seconds = 0.0

    def run(self, pid: int, names: Collection[str], proc: pathlib.Path) -> None:
        try:
            self.files = memory_maps.of_process(pid, names, proc=proc)
            self.cpu_seconds = time.thread_time()
        finally:
            self.ended.set()


class MapsReader:
    """Reads maps, and leaves a process behind that keeps its reader waiting.

    Args:
        names: the last part of the names of the files that are looked for.
        proc: the proc file system of the host.

    Attributes:
        seconds: the time that reading took: of CPU, and of waiting in vain.
    """

    def __init__(self, names: Collection[str], proc: pathlib.Path) -> None:
        self._names = names
        self._proc = proc
        self._late: dict[tuple[int, Identity | None], _Reading] = {}  # by process
        self.seconds = 0.0

    def of(self, pid: int, owner: Owner) -> frozenset[MappedFile] | None:
        """Return the files that a process of a container maps; None where it has ended.

        Raises:
            MapsBusyError: they don't come; asking again costs no time.
        """
        who = pid, process.identity(pid, proc=self._proc)
        reading = self._late.pop(who, None)
        if reading is None:
            reading = self._begin(pid, owner)
            if not reading.ended.wait(_WAIT_SECONDS):
                self.seconds += _WAIT_SECONDS
        if not reading.ended.is_set():
            self._late[who] = reading
            raise MapsBusyError(f"the memory maps of process {pid} don't come")
        self.seconds += reading.cpu_seconds
        return reading.files

    def _begin(self, pid: int, owner: Owner) -> _Reading:
        if self._is_full(owner):
            self._late = {who: each for who, each in self._late.items() if not each.ended.is_set()}
        if self._is_full(owner):
            raise MapsBusyError(f"the memory maps of {len(self._late)} other processes don't come")
        reading = _Reading(owner)
        threading.Thread(
            target=reading.run, args=(pid, self._names, self._proc), name="maps", daemon=True
        ).start()
        return reading

    def _is_full(self, owner: Owner) -> bool:
        own = sum(each.owner == owner for each in self._late.values())
        most = _MOST_THREADS if own else _MOST_WITH_FIRSTS
        return own >= _MOST_OF_ONE or len(self._late) >= most
