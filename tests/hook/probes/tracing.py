"""A trace of calls that can be compared between two processes: no addresses, no time."""

import ctypes
import enum
import json
from collections.abc import Callable
from typing import Any

ERRNO = 33
# An empty kernel that the simulated driver runs for 10 us.
PTX = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry empty_10us() { ret; }\n"

_errno_location = ctypes.CDLL(None)["__errno_location"]
_errno_location.restype = ctypes.c_void_p


class Trace:
    """Prints, for every call: its name, its result, errno, and the context that is current then."""

    def __init__(self, current: Callable[[], object]) -> None:
        self._current = current
        self._contexts: list[str] = []
        self._errno = ctypes.c_int.from_address(_errno_location())

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call it, print the line, and return the call's result."""
        self._errno.value = ERRNO
        try:
            result = function(*arguments)
        finally:
            errno = self._errno.value
        self.say(getattr(function, "__name__", repr(function)), result, errno)
        return result

    def say(self, *words: object) -> None:
        """Print a line."""
        print(json.dumps([*(plain(word) for word in words), self._context()]), flush=True)

    def _context(self) -> int:
        current = str(self._current())
        if current not in self._contexts:
            self._contexts.append(current)
        return self._contexts.index(current)


def plain(word: object) -> object:
    """The values on which two processes can agree: codes, sizes and texts, but no handle."""
    if isinstance(word, enum.Enum):
        return word.name
    if isinstance(word, list | tuple):
        return [plain(each) for each in word]
    if isinstance(word, bytes | bytearray):
        return word.decode(errors="replace")
    return word if isinstance(word, int | str | bool | None) else type(word).__name__
