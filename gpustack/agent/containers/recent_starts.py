"""The pods of which a container was let start a moment ago.

Between PreStartContainer and the runtime's list a container is made, which takes as long as its
snapshot does. Whoever deletes the pod by force meanwhile has it gone from the API server before its
container runs.
"""

import threading
import time
from typing import Final

# Less than an Allocate waits for the cards of pods that have ended (decisions.py).
_SECONDS: Final = 3.0


class RecentStarts:
    """Remembers them by UID; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}  # replaced, not changed

    def note(self, uid: str) -> None:
        """Take note that a container of a pod is let start now."""
        now = time.monotonic()
        with self._lock:
            recent = {each: end for each, end in self._until.items() if end > now}
            self._until = recent | {uid: now + _SECONDS}

    @property
    def any(self) -> bool:
        """Whether a container of some pod may be about to start."""
        return max(self._until.values(), default=0.0) > time.monotonic()

    def has(self, uid: str) -> bool:
        """Say whether one may be about to start."""
        return self._until.get(uid, 0.0) > time.monotonic()
