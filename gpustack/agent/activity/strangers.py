"""Use of a card that no share answers for: by containers without it, and by PIDs that have moved.

A process needs no right to a card's device nodes for descriptors that another one has opened: a
container with the card may hand them to one without (SCM_RIGHTS), of its own pod or of another's,
which may keep them when the card is another pod's. No limits and no ledger hold there.

The time of a PID that a card has shown for another process than now is nobody's (`nvml_usage`). A
tenant can have that by itself: it leaves a PID's descriptors to a child, and makes processes until
the kernel's PIDs come round.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeVar

from gpustack.agent.activity.gpu_time_accounts import DEPTH_NS, POINTS
from gpustack.agent.activity.nvml_usage import NOBODY, ContainerSample, NvmlUsage
from gpustack.agent.containers.allocation_records import AllocationRecords, PodRecord
from gpustack.agent.identification.process_owners import HIDDEN, Owner

_Kept = TypeVar("_Kept")

_LOOKS: Final = 3  # in all: a record that was lost is restored meanwhile
# Told again while it lasts: an Event is there for an hour, and what hides itself has no name of its
# own by which the next would be told from it.
AGAIN_LOOKS: Final = 600
_PERIOD: Final = 5  # looks, between those at whole cards
_MOST: Final = 1024  # of containers that are remembered
_STRANGER: Final = (
    "has processes on card {uuid}, which was not given to it: no limits hold there. A container"
    " that has or had the card may have handed it descriptors; delete the pod"
)
_MOVED: Final = (
    "has a PID of which card {uuid} has shown an earlier process, and the driver counts 3 s of GPU"
    " time and 3 points for it, which are nobody's: of a later process of this PID, or of one that"
    " keeps the earlier one's descriptors"
)


class Strangers:
    """Tells each of them, by card, and again while it lasts.

    Args:
        records: which container has which cards.
        usage: knows the processes of cards that are given whole.
        tell: takes the card, the container, and what that has of it, the two in words.
        clock_ns: CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        records: AllocationRecords,
        usage: NvmlUsage,
        tell: Callable[[str, str, str], None],
        clock_ns: Callable[[], int],
    ) -> None:
        self._records = records
        self._usage = usage
        self._tell = tell
        self._clock_ns = clock_ns
        self._turn = 0
        self._looks: dict[tuple[str, Owner], int] = {}  # that have found it
        # GPU time above a few points, as of a time.
        self._moved: dict[tuple[str, Owner], tuple[int, int]] = {}

    def look(self, seen: Mapping[str, Mapping[Owner, ContainerSample]]) -> None:
        """Take over the containers that the driver shows on cards with shares, by card."""
        records = self._records.all()
        given = {
            (uuid, (record.uid, container.name))
            for record in records
            for container in record.containers
            for uuid in container.placement.uuids
        }
        found = {(uuid, owner) for uuid, here in seen.items() for owner in here if here[owner].pids}
        self._turn = (self._turn + 1) % _PERIOD
        whole = {uuid for uuid, _ in given}.difference(seen, {""}) if not self._turn else ()
        found |= {(uuid, owner) for uuid in whole for owner in self._usage.containers_on(uuid)}
        for each in found - given:
            self._looks[each] = looks = self._looks.pop(each, 0) + 1
            if looks % AGAIN_LOOKS == _LOOKS:
                self._tell(each[0], _words(each[1], records), _STRANGER.format(uuid=each[0]))
        _bound(self._looks)
        self._count_moved(seen, records)

    def _count_moved(
        self, seen: Mapping[str, Mapping[Owner, ContainerSample]], records: Collection[PodRecord]
    ) -> None:
        moved = (
            ((uuid, owner), sample.moved_ns)
            for uuid, here in seen.items()
            for owner, sample in here.items()
            if sample.moved_ns
        )
        now_ns = self._clock_ns()
        for each, moved_ns in moved:
            before_ns, at_ns = self._moved.pop(each, (0, now_ns))
            left_ns = max(0, before_ns - (now_ns - at_ns) * POINTS // 100)
            self._moved[each] = left_ns + moved_ns, now_ns
            if left_ns < DEPTH_NS <= left_ns + moved_ns:
                self._tell(each[0], _words(each[1], records), _MOVED.format(uuid=each[0]))
        _bound(self._moved)


def _words(owner: Owner, records: Collection[PodRecord]) -> str:
    uid, name = owner
    if owner == HIDDEN:
        return (
            "a process whose cgroup can't be read, because its path is too long or its first"
            " threads have ended,"
        )
    if owner == NOBODY:
        return "a process that has ended before the agent saw it"
    pod = next((f"{one.namespace}/{one.name}" for one in records if one.uid == uid), "")
    return f"container {name} of the pod {pod or 'with UID ' + uid}"


def _bound(kept: dict[tuple[str, Owner], _Kept]) -> None:
    while len(kept) > _MOST:
        del kept[next(iter(kept))]
