"""What was worked out lately, bounded by bytes: users and nodes decide how large an entry is."""

import collections
import functools
import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, ParamSpec, TypeVar

_Args = ParamSpec("_Args")
_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class LRUCache(Generic[_Key, _Value]):
    """The least recently used entries go first. Safe from any thread."""

    def __init__(self, most_bytes: int, largest_part: int = 8) -> None:
        """Start empty.

        Args:
            most_bytes: the sum of all entries' sizes, as their owner estimates them.
            largest_part: an entry above 1/`largest_part` of that isn't kept.
        """
        self._most_bytes = most_bytes
        self._largest_part = largest_part
        self._bytes = 0
        self._entries: collections.OrderedDict[_Key, tuple[_Value, int]] = collections.OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """The sum of the entries' sizes."""
        return self._bytes

    def get(self, key: _Key) -> _Value | None:
        """Return what is known of a key, None where nothing is."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: _Key, value: _Value, size_bytes: int) -> None:
        """Keep a value, unless it is too large to be kept beside others."""
        with self._lock:
            old = self._entries.pop(key, None)
            if old is not None:
                self._bytes -= old[1]
            if size_bytes * self._largest_part > self._most_bytes:
                return
            self._entries[key] = value, size_bytes
            self._bytes += size_bytes
            while self._bytes > self._most_bytes:
                _, (_, freed) = self._entries.popitem(last=False)
                self._bytes -= freed

    def get_or_make(
        self, key: _Key, make: Callable[[], _Value], size_bytes: Callable[[_Value], int]
    ) -> _Value:
        """Return what is known of a key; else make it, perhaps in two threads, and keep it."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found, size_bytes(found))
        return found

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0


def remembered(
    most_bytes: int, size_bytes: Callable[..., int]
) -> Callable[[Callable[_Args, _Value]], Callable[_Args, _Value]]:
    """Return what makes a function remember its answers, called by position only.

    `size_bytes` estimates the size of an answer with its arguments from the arguments.
    """

    def remembering(call: Callable[_Args, _Value]) -> Callable[_Args, _Value]:
        known: LRUCache[Any, _Value] = LRUCache(most_bytes)

        @functools.wraps(call)
        def answer(*args: _Args.args, **kwargs: _Args.kwargs) -> _Value:
            return known.get_or_make(
                args, lambda: call(*args, **kwargs), lambda _: size_bytes(*args, **kwargs)
            )

        return answer

    return remembering
