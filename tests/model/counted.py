"""A tuple that knows how often it was gone through."""

from collections.abc import Iterator
from typing import TypeVar

_Item = TypeVar("_Item")


class Counted(tuple[_Item, ...]):
    """Things that count how often all of them are looked at."""

    looks = 0

    def __iter__(self) -> Iterator[_Item]:
        self.looks += 1
        return super().__iter__()
