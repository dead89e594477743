"""The pods that were refused, in the order in which they are looked at again.

Pods that ask alike stand in one queue: where the first of them finds no room, none does. An
activated pod goes to the end of its queue, so that one which can't use the room for a reason that
we don't see (a taint, a volume) doesn't keep it from the others; each time that it takes no room,
the pause until it is activated again doubles. With it goes its namespace, whose other pods may be
alike: thousands of them must not stand before the pods of others.
"""

import collections
from collections.abc import Callable, Iterable, Iterator
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


@dataclass(slots=True, kw_only=True, eq=False)
class Queue:
    """The refused pods that ask alike.

    Attributes:
        kind: what they have in common.
        pods: by UID, in their order.
        looked: the number of the last look at them, or of that before they came.
        rooms: how often cards had become free by then; -1 where not all nodes were searched.
    """

    kind: Kind
    pods: dict[str, UnschedulablePod] = field(default_factory=dict)
    looked: int = 0
    rooms: int = -1

    @property
    def namespace(self) -> str:
        """The pods' own."""
        return self.kind[1]


@dataclass(slots=True)
class _Namespace:
    """The refused pods of a namespace, by UID.

    Attributes:
        pods: all, in the order in which they came.
        in_vain: when those were activated last that took no room so far, in that order.
        gone_in_vain: the same of those that are gone, or ask something else by now.
    """

    pods: dict[str, None] = field(default_factory=dict)
    in_vain: dict[str, float] = field(default_factory=dict)
    gone_in_vain: float = _NEVER


class UnschedulablePods:
    """Not locked: its owner is.

    Attributes:
        looks: the number of the last look at them.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.looks = 0
        self._clock = clock
        self._queues: dict[Kind, Queue] = {}
        self._where: dict[str, Kind] = {}
        self._namespaces: dict[str, _Namespace] = {}

    def __len__(self) -> int:
        return len(self._where)

    def add(self, pod: PodState, *, in_vain: bool) -> None:
        """Remember a refused pod; ``in_vain``: it was activated for room that there is still."""
        kind = kind_of(pod)
        if self._where.get(pod.uid) != kind:
            known = self.drop(pod.uid, took_room=False)
            entry = known or UnschedulablePod(uid=pod.uid, since=self._clock())
            if kind not in self._queues:
                self._queues[kind] = Queue(kind=kind, looked=self.looks)
            self._queues[kind].pods[pod.uid] = entry
            self._where[pod.uid] = kind
            self._namespaces.setdefault(pod.namespace, _Namespace()).pods[pod.uid] = None
        if not in_vain:  # whatever room there was, others took it
            self._queues[kind].pods[pod.uid].in_vain = 0
            self._namespaces[pod.namespace].in_vain.pop(pod.uid, None)
        if len(self._where) > _MOST:
            largest = max(self._namespaces.values(), key=lambda each: len(each.pods))
            self.drop(next(iter(largest.pods)), took_room=False)

    def moved(self, pod: PodState) -> bool:
        """Say whether a waiting pod asks something else by now, and stands in another queue then.

        Left among those that it was like, it would stand for them, and none would be activated.
        """
        if self._where.get(pod.uid) in (None, kind_of(pod)):
            return False
        self.add(pod, in_vain=False)
        return True

    def drop(self, uid: str, *, took_room: bool) -> UnschedulablePod | None:
        """Forget a pod; returns what was known.

        Its user may delete or change one that took no room: that gives its namespace no better
        place.
        """
        kind = self._where.pop(uid, None)
        if kind is None:
            return None
        queue = self._queues[kind]
        entry = queue.pods.pop(uid)
        if not queue.pods:
            del self._queues[kind]
        theirs = self._namespaces[queue.namespace]
        del theirs.pods[uid]
        moment = theirs.in_vain.pop(uid, _NEVER)
        if not took_room:
            theirs.gone_in_vain = max(theirs.gone_in_vain, moment)
        if not theirs.pods:
            del self._namespaces[queue.namespace]
        return entry

    def activated(self, uid: str) -> None:
        """Put an activated pod to the end of its queue."""
        kind = self._where.get(uid)
        if kind is None:
            return  # placed meanwhile
        queue = self._queues[kind]
        entry = queue.pods.pop(uid)
        entry.activated = entry.since = self._clock()
        entry.in_vain += 1
        queue.pods[uid] = entry
        in_vain = self._namespaces[queue.namespace].in_vain
        in_vain.pop(uid, None)
        in_vain[uid] = entry.activated

    def place(self, entry: UnschedulablePod) -> float:
        """Return since when a pod counts as waiting, among those of all namespaces."""
        kind = self._where.get(entry.uid)
        theirs = _Namespace() if kind is None else self._namespaces[kind[1]]
        last = next(reversed(theirs.in_vain.values()), _NEVER)
        return max(entry.since, last, theirs.gone_in_vain)

    def was_activated(self, uid: str) -> bool:
        """Say whether a pod was activated since it was refused first."""
        kind = self._where.get(uid)
        return kind is not None and self._queues[kind].pods[uid].activated > _NEVER

    def activated_after(self, moment: float) -> list[str]:
        """Return the pods that were activated since and are expected to take their room."""
        return [
            entry.uid
            for queue in self._queues.values()
            for entry in queue.pods.values()
            if entry.activated > moment
        ]

    @property
    def queues(self) -> list[Queue]:
        """The queues, one for each thing that is asked."""
        return list(self._queues.values())

    def ready(self, queue: Queue) -> Iterator[UnschedulablePod]:
        """Yield the pods of a queue that may be activated now, in the order of this moment."""
        now = self._clock()
        entries = list(queue.pods.values())
        return (entry for entry in entries if entry.ready(now))


def in_turn(queues: Iterable[Queue]) -> list[Queue]:
    """Return queues in the order in which they are looked at.

    Namespaces have turns, and in each of them that queue comes first that was looked at longest
    ago: the thousands of one namespace stand before no other's.
    """
    turns: collections.Counter[str] = collections.Counter()
    ranked = []
    for queue in sorted(queues, key=lambda each: each.looked):
        ranked.append((turns[queue.namespace], queue))
        turns[queue.namespace] += 1
    return [queue for _, queue in sorted(ranked, key=lambda each: (each[0], each[1].looked))]
