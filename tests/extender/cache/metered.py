"""The cluster cache's lock, with a meter: how long, and for how much work, a thread held it."""

import contextlib
import dataclasses
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from extender.cache.allocations import Allocations
from gpustack.model.search.backtracking import Attempt

_LOOKS = ("node", "set_node", "drop_node", "take", "give_back")


@dataclasses.dataclass(slots=True, kw_only=True)
class Hold:
    """One hold, from the first acquisition to the last release.

    Attributes:
        seconds: by the wall clock; other threads' turns of the interpreter are in it.
        cpu_seconds: of the thread that held it.
        looks: at nodes, or changes of a node's allocations.
        where: the lines of code that took the lock.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    looks: int = 0
    where: str = ""


class MeteredLock:
    """Stands in for the cache's lock.

    Attributes:
        longest: the hold that took most of its thread's time.
        busiest: the hold with the most looks.
        searches: the lines of code that searched while their thread held the lock.
    """

    def __init__(self, *, traced: bool = True) -> None:
        """Begin to measure; ``traced``: remember where a hold began, which costs some 20 us."""
        self.longest = Hold()
        self.busiest = Hold()
        self.searches: list[str] = []
        self._traced = traced
        self._lock = threading.RLock()
        self._depth = 0
        self._now = Hold()
        self._began = (0.0, 0.0)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        got = self._lock.acquire(blocking, timeout)
        if got:
            self._depth += 1
            if self._depth == 1:
                self._now = Hold(where=_place() if self._traced else "")
                self._began = time.perf_counter(), time.thread_time()
        return got

    def release(self) -> None:
        if self._depth == 1:
            hold = self._now
            hold.seconds = time.perf_counter() - self._began[0]
            hold.cpu_seconds = time.thread_time() - self._began[1]
            if not hold.where and hold.cpu_seconds > self.longest.cpu_seconds:
                hold.where = _place()
            self.longest = max(self.longest, hold, key=lambda each: each.cpu_seconds)
            self.busiest = max(self.busiest, hold, key=lambda each: each.looks)
        self._depth -= 1
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()

    def is_mine(self) -> bool:
        """Say whether this thread holds the lock."""
        owned: bool = self._lock._is_owned()  # type: ignore[attr-defined]
        return owned

    def look(self) -> None:
        """Count a look, where this thread holds the lock."""
        if self.is_mine():
            self._now.looks += 1

    def search(self) -> None:
        """Note a search, where this thread holds the lock."""
        if self.is_mine():
            self.searches.append(_place())


def _place() -> str:
    lines = [each for each in traceback.extract_stack() if "/extender/" in each.filename]
    ours = [each for each in lines if "/tests/" not in each.filename]
    return " < ".join(f"{each.name}:{each.lineno}" for each in reversed(ours[-5:]))


@contextlib.contextmanager
def counting(lock: MeteredLock) -> Iterator[None]:
    """Count looks and searches while the block runs."""
    with pytest.MonkeyPatch.context() as patch:
        for name in _LOOKS:
            patch.setattr(Allocations, name, _telling(getattr(Allocations, name), lock.look))
        patch.setattr(Attempt, "answer", _telling(Attempt.answer, lock.search))
        yield


def _telling(call: Any, tell: Any) -> Any:
    def told(*asked: Any, **options: Any) -> Any:
        tell()
        return call(*asked, **options)

    return told
