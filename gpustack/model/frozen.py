"""Mappings that are values: they don't change, equal ones hash alike, and they pickle.

The standard library's `MappingProxyType` can neither be hashed nor be sent to another process.
"""

from collections.abc import Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FrozenMap(Mapping[K, V]):
    """A mapping in the order it was given, equal to every mapping of the same pairs."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Mapping[K, V]) -> None:
        self._pairs = dict(pairs)

    def __getitem__(self, key: K) -> V:
        return self._pairs[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __hash__(self) -> int:
        return hash(frozenset(self._pairs.items()))

    def __repr__(self) -> str:
        return f"FrozenMap({self._pairs!r})"


def freeze(value: object, *names: str) -> None:
    """Make these fields of a frozen dataclass values; for its `__post_init__`."""
    for name in names:
        mapping = getattr(value, name)
        if not isinstance(mapping, FrozenMap):
            object.__setattr__(value, name, FrozenMap(mapping))
