"""The time in which a namespace's pods may have others' pods compared, and who asks again.

To compare the pods of a hundred nodes takes seconds. A pod that no victims help asks again and
again, and a tenant may have a hundred of them. So a namespace's questions have a part of the time
together, and so have those of all namespaces (`cache.search_time`), apart from that in which nodes
are searched for room.

A question that begins has time for a node at least. A pod whose question ended before a node was
named is woken once there is time again: the scheduler itself might come back to it much later.
"""

import collections
import functools
import threading
from collections.abc import Callable
from typing import Final

from extender.cache.pods import PodState
from extender.cache.search_time import SearchShares

_NODE_SECONDS: Final = 0.5  # a first set of a node's pods is found in less
_MOST: Final = 10_000  # pods that are remembered


class PreemptTurns:
    """Counts the time, and remembers the pods. Safe from any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin with nothing used; ``clock`` gives seconds."""
        self._shares = SearchShares(clock, least_seconds=0.0)
        self._lock = threading.Lock()
        self._waiting: collections.OrderedDict[str, str] = collections.OrderedDict()

    def seconds(self, namespace: str) -> float:
        """Return for how long a question of the namespace may go on; 0: not now."""
        left = self._shares.left(namespace)
        return left if left >= _NODE_SECONDS else 0.0

    def used(self, namespace: str, seconds: float) -> None:
        """Count what a question has taken."""
        self._shares.use(namespace, seconds)

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
        has_time = functools.cache(self.seconds)
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
