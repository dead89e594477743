"""The driver's view of every container, by NVML: memory, GPU time, processes.

It is independent of the container's own ledger, which its tenant can write to.
"""

import collections
import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from gpustack.adapters.nvml import Busy, GpuProcess, Nvml, NvmlError
from gpustack.agent.identification.process_owners import Owner, ProcessOwners

logger = logging.getLogger(__name__)

# The driver's samples are some seconds old at most; what is there tells of a process for so long.
_REMEMBERED_SECONDS: Final = 15.0
_SHORT_SECONDS: Final = 0.2
_NEVER_SECONDS: Final = 3600.0
NOBODY: Final[Owner] = ("", "")
"""Has the PIDs whose processes have ended before the agent saw them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSample:
    """One container on one card.

    Attributes:
        memory_bytes: of the card, contexts and modules included.
        busy_ns: GPU time since the look before, as far as the driver's windows are over.
        ahead_ns: estimate of the GPU time since then, if the container's use is steady.
        span_ns: length of the driver's windows since the look before.
        lag_ns: time since they ended, at most their length.
        behind_ns: time since they ended.
        moved_ns: GPU time of PIDs of its own that the card has shown for another: nobody's.
        pids: its processes there, as the host numbers them.
    """

    memory_bytes: int = 0
    busy_ns: int = 0
    ahead_ns: int = 0
    span_ns: int = 0
    lag_ns: int = 0
    behind_ns: int = 0
    moved_ns: int = 0
    pids: tuple[int, ...] = ()

    def plus(self, pid: int, memory_bytes: int, busy_ns: int, ahead_ns: int) -> "ContainerSample":
        """Return the sum with one more process."""
        return dataclasses.replace(
            self,
            memory_bytes=self.memory_bytes + memory_bytes,
            busy_ns=self.busy_ns + busy_ns,
            ahead_ns=self.ahead_ns + ahead_ns,
            pids=(*self.pids, pid),
        )

    def plus_ended(self, busy_ns: int) -> "ContainerSample":
        """Return the sum with a process that has ended since."""
        return dataclasses.replace(self, busy_ns=self.busy_ns + busy_ns)

    def believed(self, busy_ns: int) -> "ContainerSample":
        """Return it with another GPU time, and the estimate since then by that."""
        if busy_ns == self.busy_ns:
            return self  # mostly so, and always of an idle one
        ahead_ns = self.ahead_ns * busy_ns // self.busy_ns if self.busy_ns else 0
        return dataclasses.replace(self, busy_ns=busy_ns, ahead_ns=ahead_ns)

    def plus_moved(self, busy_ns: int) -> "ContainerSample":
        """Return it with the time of a PID that the card has shown for another."""
        return dataclasses.replace(self, moved_ns=self.moved_ns + busy_ns)


NOTHING = ContainerSample()


class NvmlUsage:
    """Reads the use of cards; remembers up to when it has counted GPU time.

    A driver shows a PID for as long as anybody keeps a descriptor of its process, also when that
    has ended and the kernel has given the PID to another. While it is shown it is its first owner's
    or nobody's: a tenant would be accused of what a neighbour holds.

    The driver tells the time of a process after its end, too, when its container can't be found any
    more. So the containers of processes are remembered; while a card was busy for processes that
    were never seen, it is looked for such short ones more often.

    Args:
        nvml: the driver.
        owners: know the containers of living processes.
        is_good: whether the driver is known to count what each process used, so that launches can
            be held back by it.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        nvml: Nvml,
        owners: ProcessOwners,
        *,
        is_good: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_good = is_good
        self._nvml = nvml
        self._owners = owners
        self._clock = clock
        self._counted_us: dict[str, int] = {}  # by card; the driver's clock
        self.unowned_bytes: Mapping[str, int] = {}  # by card, at the last look
        self._card_busy_ns: dict[str, int] = {}  # by card, in the windows of the last look
        self._shown: dict[str, dict[int, Owner | None]] = {}  # by card and PID, the first owner
        self._seen: dict[int, tuple[Owner | None, float]] = {}  # by PID, and the time of that
        self._unseen: dict[str, float] = {}  # by card: until when short processes are looked for
        self._next_short = 0.0

    @property
    def pause_seconds(self) -> float:
        """The time until the next look for short processes is due."""
        return _SHORT_SECONDS if self._unseen else _NEVER_SECONDS

    def card_busy_ns(self, uuid: str) -> int:
        """Return the GPU time of all processes in the windows of the last look."""
        return self._card_busy_ns.get(uuid, 0)

    def look_for_short_processes(self) -> None:
        """Remember whose processes are on the cards that were busy for unknown ones."""
        now = self._clock()
        if not self._unseen or now < self._next_short:
            return
        self._next_short = now + _SHORT_SECONDS
        self._unseen = {uuid: until for uuid, until in self._unseen.items() if until > now}
        owner_of = self._owners.now()
        for uuid in self._unseen:
            try:
                self._see(uuid, self._nvml.processes(uuid), owner_of)
            except NvmlError as error:
                logger.debug("card says nothing of its processes uuid=%s: %s", uuid, error)

    def containers_on(self, uuid: str) -> frozenset[Owner]:
        """Return the containers with processes on a card that `look` isn't asked about."""
        owner_of = self._owners.now()
        try:
            pids = [each.pid for each in self._nvml.processes(uuid)]
        except NvmlError as error:
            logger.debug("card says nothing of its processes uuid=%s: %s", uuid, error)
            return frozenset()
        firsts = self._firsts(uuid, pids, owner_of)
        return frozenset(
            owner for pid in pids if (owner := owner_of(pid)) is not None and firsts[pid] == owner
        )

    def look(self, uuids: Iterable[str]) -> Mapping[str, Mapping[Owner, ContainerSample]]:
        """Return, by card, the containers that have processes there.

        A card that doesn't answer is left out: its missing samples prove no absence of use.
        """
        owner_of = self._owners.now()
        now = self._clock()
        self._seen = {
            pid: each for pid, each in self._seen.items() if each[1] > now - _REMEMBERED_SECONDS
        }
        found: dict[str, dict[Owner, ContainerSample]] = {}
        unowned: dict[str, int] = {}
        for uuid in uuids:
            try:
                processes = self._nvml.processes(uuid)
                busy = self._nvml.busy(uuid, since_us=self._counted_us.get(uuid, 0))
            except NvmlError as error:
                logger.debug("card says nothing of its processes uuid=%s: %s", uuid, error)
                continue
            try:
                unowned[uuid] = self._nvml.unowned_bytes(uuid)
            except NvmlError as error:
                logger.debug("card doesn't say what it has in use uuid=%s: %s", uuid, error)
            times, sights = self._begin(uuid, busy)
            found[uuid] = sights
            lost = self._take(uuid, processes, times, sights, lag=busy.lag, owner_of=owner_of)
            if lost:
                unowned[uuid] = unowned.get(uuid, 0) + lost
        self.unowned_bytes = unowned
        return found

    def _take(
        self,
        uuid: str,
        processes: Sequence[GpuProcess],
        times: Mapping[int, int],
        sights: dict[Owner, ContainerSample],
        *,
        lag: float,
        owner_of: Callable[[int], Owner | None],
    ) -> int:
        """Fill in a card's containers; returns the memory of processes that are nobody's."""
        now, lost = self._clock(), 0
        firsts = self._see(uuid, processes, owner_of)
        for each in processes:
            owner, first = owner_of(each.pid), firsts[each.pid]
            if first in (None, owner):
                if owner is not None:
                    busy_ns = times.get(each.pid, 0)
                    sights[owner] = sights[owner].plus(
                        each.pid, each.memory_bytes, busy_ns, int(busy_ns * lag)
                    )
                continue
            lost += each.memory_bytes
            if each.pid in times:
                busy_ns = times[each.pid]
                if owner is None and first not in (None, NOBODY):
                    # It has ended, its child works on.
                    sights[first] = sights[first].plus_ended(busy_ns)
                else:
                    user = owner or NOBODY
                    sights[user] = sights[user].plus_moved(busy_ns)
        self._card_busy_ns[uuid] = sum(times.values())
        for pid in times.keys() - {each.pid for each in processes}:
            if pid not in self._seen:
                self._unseen[uuid] = now + _REMEMBERED_SECONDS
                continue
            owner = self._seen[pid][0]
            if owner is not None:
                sights[owner] = sights[owner].plus_ended(times[pid])
        return lost

    def _see(
        self,
        uuid: str,
        processes: Sequence[GpuProcess],
        owner_of: Callable[[int], Owner | None],
    ) -> Mapping[int, Owner | None]:
        """Remember whose time that of a card's PIDs is; returns their first owners."""
        now, firsts = self._clock(), self._firsts(uuid, (each.pid for each in processes), owner_of)
        for pid, first in firsts.items():
            owner = owner_of(pid)
            if first in (None, owner):
                self._seen[pid] = owner, now
            elif owner is not None:
                self._seen[pid] = None, now  # it has moved
        return firsts

    def _firsts(
        self, uuid: str, pids: Iterable[int], owner_of: Callable[[int], Owner | None]
    ) -> Mapping[int, Owner | None]:
        """Return the first owners of the PIDs that a card shows; None: the host's, or unknown."""
        before, found = self._shown.get(uuid, {}), dict[int, Owner | None]()
        for pid in pids:
            first = before.get(pid) or owner_of(pid)
            # A child that has inherited its descriptors keeps what an ended process held.
            found[pid] = NOBODY if first is None and self._owners.has_ended(pid) else first
        self._shown[uuid] = found
        return found

    def _begin(
        self, uuid: str, busy: Busy
    ) -> tuple[Mapping[int, int], collections.defaultdict[Owner, ContainerSample]]:
        """Return the GPU time of a card's processes since the look before, and no sample yet."""
        # Only the end of the first look is of use: its beginning is unknown.
        times = busy.busy_ns if uuid in self._counted_us else {}
        span_us = busy.until_us - self._counted_us.get(uuid, busy.until_us)
        span_ns = 1000 * max(0, span_us)  # the clock may have been set back
        self._counted_us[uuid] = busy.until_us
        empty = functools.partial(
            ContainerSample,
            span_ns=span_ns,
            lag_ns=int(span_ns * busy.lag),
            behind_ns=1000 * busy.behind_us,
        )
        return times, collections.defaultdict(empty)
