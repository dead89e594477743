"""A bounded queue in which nobody's many items stand before others' few."""

import collections
import threading
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class FairQueue(Generic[_Item]):
    """Gives one item of each owner in turn. Where it is full, who has the most loses the newest.

    Safe from any thread.
    """

    def __init__(self, most: int) -> None:
        """Begin empty; ``most`` items have room."""
        self._most = most
        self._count = 0
        self._closed = False
        self._changed = threading.Condition()
        self._waiting: collections.OrderedDict[str, collections.deque[_Item]] = (
            collections.OrderedDict()
        )

    def put(self, owner: str, item: _Item) -> bool:
        """Take an item; returns whether all of them had room."""
        with self._changed:
            self._waiting.setdefault(owner, collections.deque()).append(item)
            self._count += 1
            fits = self._count <= self._most
            if not fits:
                self._count -= 1
                largest = max(self._waiting, key=lambda each: len(self._waiting[each]))
                self._waiting[largest].pop()
                if not self._waiting[largest]:
                    del self._waiting[largest]
            self._changed.notify()
            return fits

    def get(self) -> _Item | None:
        """Wait for an item, and return it; None once the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._count or self._closed)
            if self._closed:
                return None
            owner, theirs = self._waiting.popitem(last=False)
            item = theirs.popleft()
            self._count -= 1
            if theirs:
                self._waiting[owner] = theirs
            return item

    def close(self) -> None:
        """Give nothing more; what waits is dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
