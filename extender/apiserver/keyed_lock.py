"""One request at a time for each pod: a scheduler that timed out asks again while we still work."""

import contextlib
import threading
from collections.abc import Iterator

from extender.errors import CannotDecide


class KeyedLock:
    """A lock for each key in use."""

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._taken: set[str] = set()

    @contextlib.contextmanager
    def of(self, key: str, *, timeout_seconds: float) -> Iterator[None]:
        """Wait for this key's turn and hold it while the block runs.

        Raises:
            CannotDecide: another request for it still works after ``timeout_seconds``.
        """
        with self._free:
            if not self._free.wait_for(lambda: key not in self._taken, timeout_seconds):
                raise CannotDecide("Busy", "an earlier request for this pod is still at work")
            self._taken.add(key)
        try:
            yield
        finally:
            with self._free:
                self._taken.discard(key)
                self._free.notify_all()
