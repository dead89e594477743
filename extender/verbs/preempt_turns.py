"""The time in which a namespace's pods may have others' pods compared, and who asks again.

To compare the pods of a hundred nodes takes seconds. A pod that no victims help asks again and
again, and a tenant may have a hundred of them. So a namespace's questions have a part of the time
together, and so have those of all namespaces (`cache.search_time`), apart from that in which nodes
are searched for room.

A question that begins has time for a node at least. Where time is short, it is the turn of the
namespace that has used least in the last hours: a tenant may have many. A pod whose question ended
before a node was named is woken once there is time again: the scheduler itself might come back to
it much later.
"""

import collections
import functools
import math
import threading
from collections.abc import Callable
from typing import Final

from extender.cache.pods import PodState
from extender.cache.search_time import SearchShares

_NODE_SECONDS: Final = 0.5  # a first set of a node's pods is found in less
_MOST: Final = 10_000  # pods that are remembered
# What a namespace has used counts for hours, among those that wait for time.
_PAST_SECONDS: Final = 60.0
_PAST_PART: Final = 0.0005


class PreemptTurns:
    """Counts the time, and remembers the pods. Safe from any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin with nothing used; ``clock`` gives seconds."""
        self._shares = SearchShares(clock, least_seconds=0.0)
        self._past = SearchShares(clock, burst_seconds=_PAST_SECONDS, part=_PAST_PART)
        self._lock = threading.Lock()
        self._waiting: collections.OrderedDict[str, str] = collections.OrderedDict()

    def seconds(self, namespace: str) -> float:
        """Return for how long a question of the namespace may go on; 0: not now."""
        return self._seconds(namespace, self._least_used())

    def _seconds(self, namespace: str, least_used: float) -> float:
        left = self._shares.left(namespace)
        in_turn = left >= _NODE_SECONDS and self._past.used(namespace) <= least_used
        return left if in_turn else 0.0

    def _least_used(self) -> float:
        """Return the least that one has used of the namespaces that wait, and have time."""
        with self._lock:
            waiting = set(self._waiting.values())
        have_time = (each for each in waiting if self._shares.left(each) >= _NODE_SECONDS)
        return min(map(self._past.used, have_time), default=math.inf)

    def used(self, namespace: str, seconds: float) -> None:
        """Count what a question has taken."""
        self._shares.use(namespace, seconds)
        self._past.use(namespace, seconds)

    def again(self, pod: PodState) -> None:
        """Remember a pod for which no node was named, for lack of time."""
        with self._lock:
            self._waiting[pod.uid] = pod.namespace
            if len(self._waiting) > _MOST:
                self._waiting.popitem(last=False)

    def due(self, waits: Callable[[str], bool]) -> str:
        """Return the UID of the first pod that has time, to be woken now, and forget it.

        Empty where there is none. Those of many namespaces, woken together, would take the time
        from each other. A pod that no longer ``waits`` is forgotten.
        """
        has_time = functools.cache(functools.partial(self._seconds, least_used=self._least_used()))
        with self._lock:
            known = list(self._waiting.items())
        found = ""
        gone = []
        for uid, namespace in known:
            if not waits(uid):
                gone.append(uid)
            elif has_time(namespace):
                found = uid
                break
        with self._lock:
            for uid in (*gone, found):
                self._waiting.pop(uid, None)
        return found
