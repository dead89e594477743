"""The pods that were refused, in the order in which they are looked at again.

Pods that ask alike stand in one queue: where the first of them finds no room, none does. A pod that
was told of room goes to the end of its queue, so that one which can't use it for a reason that we
don't see (a taint, a volume) doesn't keep it from the others; told in vain again and again, it is
told less and less often.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from extender.cache.pods import PodState
from extender.requeue.simulation import Kind, kind_of

_MOST: Final = 20_000  # beyond it the oldest wait for the scheduler's own flush
_FIRST_SECONDS: Final = 4.0  # between two times that the same pod is told
_LAST_SECONDS: Final = 300.0  # the scheduler's own flush
_NEVER: Final = float("-inf")


@dataclass(slots=True, kw_only=True)
class UnschedulablePod:
    """A refused pod.

    Attributes:
        uid: whose.
        since: when it was refused first, or last told (seconds of the clock): its place.
        told: when it was told of room; minus infinity when it never was.
        in_vain: how often in a row it was told and nothing came of it, as far as we know.
    """

    uid: str
    since: float
    told: float = _NEVER
    in_vain: int = 0

    def ready(self, now: float) -> bool:
        """It may be told."""
        pause = min(_LAST_SECONDS, _FIRST_SECONDS * 2.0 ** (min(self.in_vain, 10) - 1))
        return now >= self.told + pause


class UnschedulablePods:
    """Not locked: its owner is."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._queues: dict[Kind, dict[str, UnschedulablePod]] = {}
        self._where: dict[str, Kind] = {}

    def __len__(self) -> int:
        return len(self._where)

    def add(self, pod: PodState, *, in_vain: bool) -> None:
        """Remember a refused pod; ``in_vain``: it was told of room that there is still."""
        queue = kind_of(pod)
        if self._where.get(pod.uid) != queue:
            known = self.drop(pod.uid)
            entry = known or UnschedulablePod(uid=pod.uid, since=self._clock())
            self._queues.setdefault(queue, {})[pod.uid] = entry
            self._where[pod.uid] = queue
        if not in_vain:
            self._queues[queue][pod.uid].in_vain = 0  # whatever room there was, others took it
        if len(self._where) > _MOST:
            self.drop(next(iter(self._where)))

    def moved(self, pod: PodState) -> bool:
        """Say whether a waiting pod asks something else by now, and stands in another queue then.

        Left among those that it was like, it would speak for them, and they would never be told.
        """
        if self._where.get(pod.uid) in (None, kind_of(pod)):
            return False
        self.add(pod, in_vain=False)
        return True

    def drop(self, uid: str) -> UnschedulablePod | None:
        """Forget a pod; returns what was known."""
        queue = self._where.pop(uid, None)
        if queue is None:
            return None
        entry = self._queues[queue].pop(uid)
        if not self._queues[queue]:
            del self._queues[queue]
        return entry

    def told(self, uid: str) -> None:
        """Put a pod that was told of room to the end of its queue."""
        queue = self._where.get(uid)
        if queue is None:
            return  # placed meanwhile
        entry = self._queues[queue].pop(uid)
        entry.told = entry.since = self._clock()
        entry.in_vain += 1
        self._queues[queue][uid] = entry

    def was_told(self, uid: str) -> bool:
        """Say whether a pod was told of room since it was refused first."""
        queue = self._where.get(uid)
        return queue is not None and self._queues[queue][uid].told > _NEVER

    def told_after(self, moment: float) -> list[str]:
        """Return the pods that were told of room since and are expected to take it."""
        return [
            entry.uid
            for queue in self._queues.values()
            for entry in queue.values()
            if entry.told > moment
        ]

    @property
    def kinds(self) -> list[Kind]:
        """What the waiting pods ask: one queue each."""
        return list(self._queues)

    def ready(self, queue: Kind) -> Iterator[UnschedulablePod]:
        """Yield the pods of a queue that may be told now, as they stood when this was called."""
        now = self._clock()
        entries = list(self._queues.get(queue, {}).values())
        return (entry for entry in entries if entry.ready(now))
