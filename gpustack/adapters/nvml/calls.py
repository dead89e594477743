"""The calls into NVML that have not returned yet.

A call may hang in the driver for ever, and no other thread can end it. Its age shows it: the agent
then stops telling systemd that it is alive. Nobody may be in the library when it is closed.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from gpustack.adapters.nvml.errors import NvmlError

_DRAIN_SECONDS: Final = 5.0  # longer than any call that doesn't hang


class CallsInFlight:
    """A gate that calls pass one by one; thread-safe.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()  # guards what follows
        self._since: dict[object, float] = {}
        self._shut = ""

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Count a call while it lasts.

        Raises:
            NvmlError: the gate is shut.
        """
        call = object()
        with self._changed:
            if self._shut:
                raise NvmlError(self._shut)
            self._since[call] = self._clock()
        try:
            yield
        finally:
            with self._changed:
                del self._since[call]
                self._changed.notify_all()

    @property
    def oldest_seconds(self) -> float:
        """The age of the oldest call; 0 without one."""
        with self._changed:
            return max((self._clock() - since for since in self._since.values()), default=0.0)

    def shut(self, why: str) -> None:
        """Refuse new calls, and wait until no call is in flight.

        Raises:
            NvmlError: one doesn't return; the gate stays shut.
        """
        with self._changed:
            self._shut = why
            if not self._changed.wait_for(lambda: not self._since, _DRAIN_SECONDS):
                raise NvmlError(f"{why}; a call has not returned for {_DRAIN_SECONDS:g} s")

    def open(self) -> None:
        """Let calls pass again."""
        with self._changed:
            self._shut = ""
