"""The time that is left for a decision, and whether its caller still waits for it."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from extender.cache.search_time import SearchShares, SearchTime
from extender.errors import CannotDecide

# Five thousand nodes in as many states take about as long; the scheduler asks no other question
# meanwhile. Whatever the setting is, half of it is left to write.
_SEARCH_SECONDS: Final = 1.0
_SEARCH_PART: Final = 0.5


@dataclass
class Deadline:
    """The moment until which a decision must be made and written: so many seconds from now.

    ``disconnected`` tells whether the caller has closed its connection; ``search_time`` is a part
    of the time, and of the ``shares`` of the pod's namespace.
    """

    seconds: float
    clock: Callable[[], float]
    disconnected: Callable[[], bool]
    shares: SearchShares | None = None

    def __post_init__(self) -> None:
        self.end = self.clock() + self.seconds
        seconds = min(_SEARCH_SECONDS, _SEARCH_PART * self.seconds)
        self.search_time = SearchTime(seconds, self.clock)

    def begin(self, namespace: str) -> None:
        """Learn whose pod the question is about."""
        if self.shares is not None:
            use = functools.partial(self.shares.use, namespace)
            self.search_time.limit(self.shares.left(namespace), use)

    def left(self) -> float:
        """Return the seconds that are left. A decision whose caller has gone is not written.

        Raises:
            CannotDecide: no time is left, or the caller has gone.
        """
        if self.disconnected():
            raise CannotDecide("CallerGone", "the scheduler has closed its connection")
        left = self.end - self.clock()
        if left <= 0:
            raise CannotDecide("TooLate", f"no decision within {self.seconds:g} s")
        return left

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        return self.clock() >= self.end
