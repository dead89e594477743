"""A pod's bind is refused once a second.

kube-scheduler pauses before it asks again about a pod, but not about a member of a PodGroup: it
asks as soon as it has the answer, some 700 times a second (1.37.2).
"""

import threading
from collections.abc import Callable
from typing import Final

_SECONDS: Final = 1.0  # kube-scheduler's own first pause (podInitialBackoffSeconds)
_MOST: Final = 4096  # pods; beyond it the one that was refused first is forgotten


class BindBackoff:
    """Remembers for a second when each pod's last refusal is answered. Safe from any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin without pods; ``clock`` gives seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._answered: dict[str, float] = {}  # by UID, the last refused one last

    def refuse(self, uid: str, until: float) -> float:
        """Return the seconds by which the answer of a pod's refusal is held back.

        The first one is answered now; one that follows, a second after the one before, and no later
        than ``until``, by the clock.
        """
        now = self._clock()
        with self._lock:
            due = self._answered.pop(uid, now - _SECONDS) + _SECONDS
            self._answered[uid] = answered = max(now, min(due, until))
            while len(self._answered) > _MOST or self._oldest + _SECONDS <= now:
                del self._answered[next(iter(self._answered))]
        return answered - now

    @property
    def _oldest(self) -> float:
        return next(iter(self._answered.values()))
