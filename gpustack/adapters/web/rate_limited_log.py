"""Log lines that any client may cause as often as it likes, written once in a while.

journald drops a service's lines beyond a number (systemd-journald, RateLimitBurst): a client that
causes lines without end would choose which.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

_SILENCE_SECONDS: Final = 10.0  # between two lines about the same fault
_MOST: Final = 256  # faults that are remembered


class RateLimitedLog:
    """Remembers what was said lately."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._said: dict[str, float] = {}

    def may_say(self, words: str) -> bool:
        """Tell whether these words weren't said lately; they count as said then."""
        with self._lock:
            now = self._clock()
            if now - self._said.get(words, float("-inf")) < _SILENCE_SECONDS:
                return False
            if len(self._said) >= _MOST:
                self._said = {
                    each: at for each, at in self._said.items() if now - at < _SILENCE_SECONDS
                }
            if len(self._said) < _MOST:
                self._said[words] = now
                return True
            return False  # so many different faults within seconds that one more says nothing
