"""The pods that were refused, in the order in which they are looked at again.

Pods that ask alike stand in one queue: where the first of them finds no room, none does. An
activated pod goes to the end of its queue, so that one which can't use the room for a reason that
we don't see (a taint, a volume) doesn't keep it from the others; each time that it takes no room,
the pause until it is activated again doubles. With it goes its namespace, whose other pods may be
alike: thousands of them must not stand before the pods of others.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from extender.cache.pods import PodState
from extender.requeue.simulation import Kind, kind_of

# Beyond it the oldest of the namespace that has the most wait for the scheduler's own flush.
_MOST: Final = 20_000
_FIRST_SECONDS: Final = 4.0  # between two activations of one pod
_LAST_SECONDS: Final = 300.0  # the scheduler's own flush
_NEVER: Final = float("-inf")


@dataclass(slots=True, kw_only=True)
class UnschedulablePod:
    """A refused pod.

    Attributes:
        uid: the pod's.
        since: when it was refused first, or last activated (seconds of the clock): its place.
        activated: when it was activated; minus infinity when it never was.
        in_vain: how often in a row it was activated and refused, as far as we know.
    """

    uid: str
    since: float
    activated: float = _NEVER
    in_vain: int = 0

    def ready(self, now: float) -> bool:
        """It may be activated."""
        pause = min(_LAST_SECONDS, _FIRST_SECONDS * 2.0 ** (min(self.in_vain, 10) - 1))
        return now >= self.activated + pause


@dataclass(slots=True)
class _Namespace:
    """The refused pods of a namespace, by UID.

    Attributes:
        pods: all, in the order in which they came.
        in_vain: when those were activated last that took no room so far, in that order.
    """

    pods: dict[str, None] = field(default_factory=dict)
    in_vain: dict[str, float] = field(default_factory=dict)


class UnschedulablePods:
    """Not locked: its owner is."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._queues: dict[Kind, dict[str, UnschedulablePod]] = {}
        self._where: dict[str, Kind] = {}
        self._namespaces: dict[str, _Namespace] = {}

    def __len__(self) -> int:
        return len(self._where)

    def add(self, pod: PodState, *, in_vain: bool) -> None:
        """Remember a refused pod; ``in_vain``: it was activated for room that there is still."""
        queue = kind_of(pod)
        if self._where.get(pod.uid) != queue:
            known = self.drop(pod.uid)
            entry = known or UnschedulablePod(uid=pod.uid, since=self._clock())
            self._queues.setdefault(queue, {})[pod.uid] = entry
            self._where[pod.uid] = queue
            self._namespaces.setdefault(pod.namespace, _Namespace()).pods[pod.uid] = None
        if not in_vain:  # whatever room there was, others took it
            self._queues[queue][pod.uid].in_vain = 0
            self._namespaces[pod.namespace].in_vain.pop(pod.uid, None)
        if len(self._where) > _MOST:
            largest = max(self._namespaces.values(), key=lambda each: len(each.pods))
            self.drop(next(iter(largest.pods)))

    def moved(self, pod: PodState) -> bool:
        """Say whether a waiting pod asks something else by now, and stands in another queue then.

        Left among those that it was like, it would stand for them, and none would be activated.
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
        theirs = self._namespaces[queue[1]]
        del theirs.pods[uid]
        theirs.in_vain.pop(uid, None)
        if not theirs.pods:
            del self._namespaces[queue[1]]
        return entry

    def activated(self, uid: str) -> None:
        """Put an activated pod to the end of its queue."""
        queue = self._where.get(uid)
        if queue is None:
            return  # placed meanwhile
        entry = self._queues[queue].pop(uid)
        entry.activated = entry.since = self._clock()
        entry.in_vain += 1
        self._queues[queue][uid] = entry
        in_vain = self._namespaces[queue[1]].in_vain
        in_vain.pop(uid, None)
        in_vain[uid] = entry.activated

    def place(self, entry: UnschedulablePod) -> float:
        """Return since when a pod counts as waiting, among those of all namespaces."""
        queue = self._where.get(entry.uid)
        in_vain = {} if queue is None else self._namespaces[queue[1]].in_vain
        return max(entry.since, next(reversed(in_vain.values()), _NEVER))

    def was_activated(self, uid: str) -> bool:
        """Say whether a pod was activated since it was refused first."""
        queue = self._where.get(uid)
        return queue is not None and self._queues[queue][uid].activated > _NEVER

    def activated_after(self, moment: float) -> list[str]:
        """Return the pods that were activated since and are expected to take their room."""
        return [
            entry.uid
            for queue in self._queues.values()
            for entry in queue.values()
            if entry.activated > moment
        ]

    @property
    def kinds(self) -> list[Kind]:
        """What the waiting pods ask: one queue each."""
        return list(self._queues)

    def ready(self, queue: Kind) -> Iterator[UnschedulablePod]:
        """Yield the pods of a queue that may be activated now, in the order of this moment."""
        now = self._clock()
        entries = list(self._queues.get(queue, {}).values())
        return (entry for entry in entries if entry.ready(now))
