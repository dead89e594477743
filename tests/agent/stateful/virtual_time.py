"""The node's time: it passes while the agent waits, and with it come the events of that time.

The agent reads `time.monotonic` and sleeps by `time.sleep`; its waits for the watch are
`PodView.wait_for_change`. All three are replaced here. Sockets, locks and threads keep real time.
"""

import heapq
import itertools
import time
from collections.abc import Callable

import pytest

from gpustack.agent import app
from gpustack.agent.cluster.pods import PodView


class Clock:
    """Seconds since some moment, and the events to come."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self._order = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    def now(self) -> float:
        return self.seconds

    def at(self, seconds: float, event: Callable[[], None]) -> None:
        """Let an event happen at a time, which may be now."""
        heapq.heappush(self._due, (seconds, next(self._order), event))
        self.advance(0)

    def advance(self, seconds: float) -> None:
        """Let time pass, and the events of that time happen."""
        self.advance_to(self.seconds + seconds)

    def advance_to(self, until: float) -> None:
        while self._due and self._due[0][0] <= until:
            when, _, event = heapq.heappop(self._due)
            self.seconds = max(self.seconds, when)
            event()
        self.seconds = max(self.seconds, until)

    def wait(self, condition: Callable[[], bool], deadline: float) -> bool:
        """Let time pass until something has happened; False at the deadline."""
        while self.seconds < deadline:
            if condition():
                return True
            self.advance_to(min([deadline, *(when for when, _, _ in self._due[:1])]))
        return False


def install(patches: pytest.MonkeyPatch, clock: Clock) -> None:
    """Let the agent live in this time, until the patches are undone."""

    class View(PodView):
        def wait_for_change(self, seen: int, deadline: float) -> bool:
            return clock.wait(lambda: self.snapshot()[1] != seen, deadline)

    patches.setattr(time, "monotonic", clock.now)
    patches.setattr(time, "sleep", clock.advance)
    patches.setattr(app, "PodView", View)
