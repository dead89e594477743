"""The time that is left for a decision, and whether its caller still waits for it."""

from collections.abc import Callable
from dataclasses import dataclass

from extender.errors import CannotDecide


@dataclass
class Deadline:
    """The moment until which a decision must be made and written: so many seconds from now.

    ``disconnected`` tells whether the caller has closed its connection.
    """

    seconds: float
    clock: Callable[[], float]
    disconnected: Callable[[], bool]

    def __post_init__(self) -> None:
        self.end = self.clock() + self.seconds

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
