"""The matrix of links of a node's record: checked, and kept once for all nodes that have it."""

import sys
from collections.abc import Sequence
from typing import Final

from gpustack.model.lru import LRUCache
from gpustack.model.topology.link_level import Links, check_links
from gpustack.model.units import MOST_LINKED_CARDS

_CHECKED: Final[LRUCache[tuple[Links, int], Links]] = LRUCache(16 << 20)
_REFERENCE_BYTES: Final = 8


def read_matrix(rows: Sequence[Sequence[str]], size: int, name: str) -> Links:
    """Return the tokens of so many cards' pairs; none beyond the cards that links are read of.

    Raises:
        BadLinks: they are no links of so many cards; names the place below `name`.
    """
    if not rows or size > MOST_LINKED_CARDS:
        return ()
    # The same few tokens stand in it thousands of times.
    tokens: Links = tuple(tuple(map(sys.intern, row)) for row in rows)

    def checked() -> Links:
        check_links(tokens, size, name)
        return tokens

    return _CHECKED.get_or_make((tokens, size), checked, _matrix_bytes)


def _matrix_bytes(links: Links) -> int:
    return sum(64 + _REFERENCE_BYTES * len(row) for row in links)
