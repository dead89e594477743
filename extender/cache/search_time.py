"""The time in which the nodes of one question are searched.

One node's search is bounded by its work (`model.search.budget`), but a question names thousands of
nodes, each in a state of its own perhaps. So a question has one time for all that it searches. A
node that it doesn't come to answers `NotSearched`, and a later question goes on from there.
"""

import time
from collections.abc import Callable
from types import TracebackType


class SearchTime:
    """Runs while it is entered: what memory answers, and waits for the API server, take none.

    Attributes:
        ran_out: a node wasn't searched for lack of time.
    """

    def __init__(
        self, seconds: float = float("inf"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start with so many seconds of the ``clock``."""
        self.ran_out = False
        self._left = seconds
        self._clock = clock
        self._entered = 0.0

    def __enter__(self) -> None:
        self._entered = self._clock()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._left -= self._clock() - self._entered

    def is_over(self) -> bool:
        """Say whether no node may be searched any more, and remember that one wasn't."""
        self.ran_out |= self._left <= 0
        return self._left <= 0
