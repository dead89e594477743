"""How near two cards are: the tokens of `nvidia-smi topo -m`, their levels and their costs.

A pair of cards is described by one token. Tokens have a level, which says what the pair's traffic
must cross, and a cost, which also tells many NVLinks from few. Smaller is nearer in both.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

Links = tuple[tuple[str, ...], ...]
"""Tokens of all pairs: n x n, symmetric, `X` on the diagonal. Empty where nothing is known."""


class BadLinks(ValueError):
    """A token or a matrix that describes no machine. The text names the place in the matrix."""


class Level(IntEnum):
    """What a pair of cards has in common, nearest first (docs/reference/nodes.md)."""

    SELF = 0
    NVLINK = 1
    PIX = 2
    PXB = 3
    PHB = 4
    NODE = 5
    SYS = 6


SELF_TOKEN: Final = "X"  # noqa: S105
FARTHEST_TOKEN: Final = "SYS"  # noqa: S105

_FULL_NVLINKS: Final = 18  # links of a card on today's largest NVSwitch machines (H100, B200)

_COSTS: Final[Mapping[Level, int]] = {
    Level.SELF: 0,
    Level.PIX: 20,
    Level.PXB: 30,
    Level.PHB: 40,
    Level.NODE: 50,
    Level.SYS: 60,
}

_NAMES: Final[Mapping[str, Level]] = {
    SELF_TOKEN: Level.SELF,
    **{level.name: level for level in Level if level >= Level.PIX},
    # Words of drivers before 384 and of NVML's enumeration, for the same levels.
    "SOC": Level.SYS,
    "INTERNAL": Level.PIX,
    "SINGLE": Level.PIX,
}

# NVB is NCCL's word for NVLink by way of another card (graph/topo.h). It counts as the weakest
# NVLink, one link: farther than any direct one of more, still nearer than PCIe.
_NVLINK: Final = re.compile(r"NVB|NVB?([1-9][0-9]?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One pair of cards: its token in today's spelling, its level and its cost."""

    token: str
    level: Level
    cost: int


@functools.cache
def parse_link(token: str) -> Link:
    """Read one token; old spellings are turned into today's.

    The cost of `NV<n>` is ceil(18 / n): with all 18 links 1, with a single one 18, so every NVLink
    is nearer than any PCIe path.

    Raises:
        BadLinks: `token` is none of X, NV<n>, PIX, PXB, PHB, NODE, SYS.
    """
    if (nvlink := _NVLINK.fullmatch(token)) is not None:
        count = int(nvlink.group(1) or 1)
        return Link(token=f"NV{count}", level=Level.NVLINK, cost=-(-_FULL_NVLINKS // count))
    level = _NAMES.get(token)
    if level is None:
        raise BadLinks(f"{token!r} is not one of X, NV<n>, PIX, PXB, PHB, NODE, SYS")
    name = SELF_TOKEN if level is Level.SELF else level.name
    return Link(token=name, level=level, cost=_COSTS[level])


def check_links(links: Links, size: int, name: str = "links") -> None:
    """Check that `links` describes `size` cards.

    Raises:
        BadLinks: not square, not symmetric, a diagonal that isn't X, an X beside it, or an unknown
            token. The text gives the matrix its `name`, and names row and column, counted from 0.
    """
    if len(links) != size:
        raise BadLinks(f"{name} has {len(links)} rows for {size} cards")
    for row, tokens in enumerate(links):
        if len(tokens) != size:
            raise BadLinks(f"{name}[{row}] has {len(tokens)} tokens for {size} cards")
        for column in range(size):
            _check_token(links, row, column, name)


def _check_token(links: Links, row: int, column: int, name: str) -> None:
    token, place = links[row][column], f"{name}[{row}][{column}]"
    try:
        link = parse_link(token)
    except BadLinks as error:
        raise BadLinks(f"{place}: {error}") from None
    if (row == column) != (link.level is Level.SELF):
        raise BadLinks(f"{place}: {token!r}; X stands on the diagonal and nowhere else")
    if column < row and links[column][row] != token:
        back = links[column][row]
        raise BadLinks(f"{place}: {token!r}, but {name}[{column}][{row}] is {back!r}")
