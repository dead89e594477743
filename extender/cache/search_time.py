"""The time in which the nodes of one question are searched.

One node's search is bounded by its work (`model.search.budget`), but a question names thousands of
nodes, each in a state of its own perhaps. So a question has one time for all that it searches. A
node that it doesn't come to answers `NotSearched`, and a later question goes on from there.
"""

import collections
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Self

_BURST_SECONDS: Final = 10.0  # an extender that starts learns a fleet in it
_PART: Final = 0.1  # of the time, in the long run
_TOGETHER: Final = 2  # so many namespaces' burst and part have all of them together
_LEAST_SECONDS: Final = 0.02  # of a question; a node takes 0.2 ms, and 12 at worst
# A namespace that has used its time up has a part of the least for a question, for so many times
# the least in all.
_SMALL_PART: Final = 0.1
_MOST_DEBT: Final = 50
# Once the time of all namespaces is over, a second of one of them counts as so many.
_PRICE: Final = 20.0
_MOST: Final = 10_000  # namespaces that are remembered

# Of a node that has changed its record: ten thousand searches of a usual node, then one of 40 ms
# each 8 s, for which no one of a hundred questions waits. All such nodes have twice that together,
# and a namespace's questions a fourth of it. It leaves as much of the node's as it has used: a
# tenant may have many namespaces, and a hundredth of the time is a hundred usual searches.
_YOUNG_SECONDS: Final = 60.0
_BURST_OF_CHANGED: Final = 2.0
_PART_OF_CHANGED: Final = 0.005
_NEXT_OF_CHANGED: Final = 0.04  # so much is left when the next search begins
_NAMESPACES_OF_CHANGED: Final = 4


class SearchShares:
    """For how long nodes may be searched for a namespace: a burst, then a part of the time.

    A tenant's pods may each be of a kind of its own that every node takes long to answer: a second
    for each of a hundred would keep all others' pods waiting. So a question of a namespace that has
    used much gets what ten nodes of the usual kind take, and nothing where that has become much as
    well: a tenant may have thousands of such pods. It may have many namespaces, too, so the same
    holds of all of them together; then a namespace that has used little itself has enough for a
    hundred nodes. Safe from any thread.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        least_seconds: float = _LEAST_SECONDS,
        burst_seconds: float = _BURST_SECONDS,
        part: float = _PART,
        together: float = _TOGETHER,
    ) -> None:
        """Begin with nothing used; ``clock`` gives seconds.

        A question has the least while its namespace has some of its time left.
        """
        self._clock = clock
        self._least_seconds = least_seconds
        self._burst_seconds = burst_seconds
        self._part = part
        self._many = together
        self._debt_seconds = _MOST_DEBT * least_seconds
        self._lock = threading.Lock()
        self._used: collections.OrderedDict[str, tuple[float, float]] = collections.OrderedDict()
        self._used_by_all = 0.0, 0.0

    def left(self, namespace: str) -> float:
        """Return the seconds that a question may take now."""
        with self._lock:
            own = self._burst_seconds - self._used_by(namespace)
            if own < self._least_seconds:
                return _SMALL_PART * self._least_seconds if own > -self._debt_seconds else 0.0
            return max(self._least_seconds, min(own, self._together()))

    def used(self, namespace: str) -> float:
        """Return the seconds that still count as used."""
        with self._lock:
            return self._used_by(namespace)

    def use(self, namespace: str, seconds: float) -> None:
        """Count what a question has taken."""
        with self._lock:
            now = self._clock()
            price = 1.0 if self._together() >= self._least_seconds else _PRICE
            most = self._burst_seconds + self._debt_seconds
            used = min(most, self._used_by(namespace) + price * seconds)
            together = min(self._many * self._burst_seconds, self._used_together() + seconds)
            self._used[namespace], self._used_by_all = (used, now), (together, now)
            self._used.move_to_end(namespace)
            if len(self._used) > _MOST:
                self._used.popitem(last=False)

    def _together(self) -> float:
        """Return what is left of the time of all namespaces."""
        return self._many * self._burst_seconds - self._used_together()

    def _used_by(self, namespace: str) -> float:
        return self._rest(self._used.get(namespace, (0.0, 0.0)), self._part)

    def _used_together(self) -> float:
        return self._rest(self._used_by_all, self._many * self._part)

    def _rest(self, used: tuple[float, float], part: float) -> float:
        """Return what still counts of seconds that were used up to a moment."""
        seconds, at = used
        return max(0.0, seconds - part * (self._clock() - at))


class SearchTime:
    """Runs while it is entered: what memory answers, and waits for the API server, take none.

    Attributes:
        ran_out: a node wasn't searched for lack of time, or not to the end.
        was_ended: that is so of the last search.
    """

    def __init__(
        self, seconds: float = float("inf"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start with so many seconds of the ``clock``."""
        self.ran_out = self.was_ended = False
        self._left = seconds
        self._may_prolong = False
        self._clock = clock
        self._entered = 0.0
        self._tell: Callable[[float], None] = lambda _: None

    def limit(self, seconds: float, tell: Callable[[float], None]) -> None:
        """Have no more than so many seconds from now on; ``tell`` hears what is used of them."""
        self._may_prolong = True
        self._left = min(self._left, seconds)
        self._tell = tell

    def prolong(self) -> bool:
        """Go on for a moment after the end, once after a `limit`; returns whether it does."""
        if not self._may_prolong:
            return False
        self._may_prolong = self.ran_out = False
        self._left = _LEAST_SECONDS
        return True

    def __enter__(self) -> Self:
        self._entered = self._clock()
        self.was_ended = False
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        used = self._clock() - self._entered
        self._left -= used
        self._tell(used)

    def goes_on(self) -> bool:
        """Say whether the search that has begun may go on, and remember that it was ended."""
        self.was_ended = self._clock() - self._entered >= self._left
        self.ran_out |= self.was_ended
        return not self.was_ended

    def is_over(self, *, of_node: bool = False) -> bool:
        """Say whether a node may not be searched any more, and remember that it wasn't.

        ``of_node``: the time of this node alone is over.
        """
        is_over = of_node or self._left <= 0
        self.ran_out |= is_over
        return is_over


class HardwareChanges:
    """Nodes that have changed what they say of their cards, and for how long those are searched.

    What a node answers is remembered until it changes. Its pods change it, and so does its own
    record, as often as whoever holds the node's credentials writes one: each question then searches
    it anew, and a matrix of many cards that is made so takes tens of milliseconds each time. So in
    the minute after a node has changed its record, the searches of it have a part of the
    processor's time. A node that has just come has all that it needs.

    A tenant makes honest nodes change theirs: the agent writes there what containers hold whose
    pods were deleted by force. So a namespace whose odd pods take long to search has a part of that
    time, and leaves the rest to others. Not locked, but for the time that was used: its owner is.
    """

    def __init__(
        self, clock: Callable[[], float], cpu: Callable[[], float] = time.thread_time
    ) -> None:
        """Begin with none; ``clock`` gives seconds, ``cpu`` those that this thread has worked."""
        self._clock = clock
        self._cpu = cpu
        self._since: dict[str, float] = {}
        self._shares = SearchShares(
            clock, least_seconds=0.0, burst_seconds=_BURST_OF_CHANGED, part=_PART_OF_CHANGED
        )
        of_namespace = _TOGETHER / _NAMESPACES_OF_CHANGED
        self._of_namespaces = SearchShares(
            clock,
            least_seconds=0.0,
            burst_seconds=of_namespace * _BURST_OF_CHANGED,
            part=of_namespace * _PART_OF_CHANGED,
            together=_MOST,  # the nodes' own bounds them
        )

    def learn(self, name: str) -> None:
        """Learn that a node has come, or says something else than before."""
        self._since[name] = self._clock() if name in self._since else float("-inf")

    def forget(self, name: str) -> None:
        """Learn that a node has gone."""
        self._since.pop(name, None)

    def over(self, name: str, namespace: str) -> bool:
        """Say whether a node has changed lately, and its searches have taken their time.

        Or those of such nodes, for this namespace's pods, have taken theirs.
        """
        if not self._is_young(name):
            return False
        for_others = self._of_namespaces.used(namespace)
        left = min(self._shares.left(name) - for_others, self._of_namespaces.left(namespace))
        return left < _NEXT_OF_CHANGED

    @contextlib.contextmanager
    def search(self, name: str, namespace: str) -> Iterator[None]:
        """Count the block as a search of a node for a pod of this namespace."""
        began = self._cpu()
        yield
        if self._is_young(name):
            used = self._cpu() - began
            self._shares.use(name, used)
            self._of_namespaces.use(namespace, used)

    def _is_young(self, name: str) -> bool:
        return self._clock() < self._since.get(name, float("-inf")) + _YOUNG_SECONDS
