"""Long work cut into parts, so that no thread waits for all of it."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

_T = TypeVar("_T")

PORTION: Final = 128
"""Nodes or pods that are looked at in one hold of the cache's lock: some 10 to 30 us each."""


def portions(values: Iterable[_T]) -> Iterator[list[_T]]:
    """Cut values into parts, each for one hold of the lock."""
    rest = iter(values)
    while some := list(itertools.islice(rest, PORTION)):
        yield some
