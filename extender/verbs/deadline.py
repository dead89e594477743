"""The time that is left for a decision, and whether its caller still waits for it."""

import time
from collections.abc import Callable

from extender.errors import CannotDecide


class Deadline:
    """The moment until which a decision must be made and written."""

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        disconnected: Callable[[], bool] = lambda: False,
    ) -> None:
        """Begin now; ``disconnected`` tells whether the caller has closed its connection."""
        self._seconds = seconds
        self._clock = clock
        self._disconnected = disconnected
        self._end = clock() + seconds

    def left(self) -> float:
        """Return the seconds that are left. A decision whose caller has gone is not written.

        Raises:
            CannotDecide: no time is left, or the caller has gone.
        """
        if self._disconnected():
            raise CannotDecide("CallerGone", "the scheduler has closed its connection")
        left = self._end - self._clock()
        if left <= 0:
            raise CannotDecide("TooLate", f"no decision within {self._seconds:g} s")
        return left

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        return self._clock() >= self._end
