"""The pods of which a container was let start a moment ago.

Between PreStartContainer and the runtime's list a container is made, which takes as long as its
user likes: containerd copies what the image has at its volumes. Whoever deletes the pod by force
meanwhile has it gone from the API server before its container runs. The kubelet calls nothing off
(kubernetes 1.34, kubelet.go SyncPod: WithoutCancel) and stops the pod's sandbox only then.
"""

import math
import threading
import time
from collections.abc import Iterable
from typing import Final

# Less than an Allocate waits for the cards of pods that have ended (decisions.py).
_SECONDS: Final = 3.0
# The kubelet gives up to make a container, and to start it, after two minutes each
# (runtimeRequestTimeout).
_SLOW_SECONDS: Final = 250.0


class RecentStarts:
    """Remembers them by UID; safe to share between threads.

    Args:
        earlier: UIDs of pods of which an earlier agent may have let a container start.
    """

    def __init__(self, earlier: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        # By UID, when; replaced, not changed. What runs already is in the runtime's list.
        self._noted = dict.fromkeys(earlier, time.monotonic() - _SECONDS)

    def note(self, uid: str) -> None:
        """Take note that a container of a pod is let start now."""
        now = time.monotonic()
        with self._lock:
            recent = {each: at for each, at in self._noted.items() if at + _SLOW_SECONDS > now}
            self._noted = recent | {uid: now}

    @property
    def any(self) -> bool:
        """Whether a container of some pod may be about to start."""
        return max(self._noted.values(), default=-_SECONDS) + _SECONDS > time.monotonic()

    def has(self, uid: str, moment: float) -> bool:
        """Say whether one may have been about to start at a moment (monotonic seconds), or since.

        What the runtime has listed then knows nothing of it.
        """
        return self._noted.get(uid, -math.inf) + _SECONDS > moment

    def has_since(self, uid: str, moment: float) -> bool:
        """Say whether one was let start since a moment."""
        return self._noted.get(uid, -math.inf) >= moment

    def has_slow(self, uid: str) -> bool:
        """Say whether one may still be made, where the pod's sandbox is ready."""
        return self._noted.get(uid, -_SLOW_SECONDS) + _SLOW_SECONDS > time.monotonic()
