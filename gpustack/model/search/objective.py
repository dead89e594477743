"""What makes one set of n free cards better than another, as a single number.

A set of cards is better than another, in this order:

1. the sum of its pair costs is lower;
2. what stays free is joined more closely: with the pairs that remain counted at each level, the
   nearest level first, more is better (it takes from the group that is left smallest, and a card
   that hangs alone goes first); to spread, fewer is better;
3. its cards are lower.

The rule before all of these, how near the worst pair is, is the search's (`card_set_search`): it
asks for one level after another.

Each of the three is a sum over the set's cards and pairs. The pairs that stay free are those of all
free cards, less the ones of each card that goes, and plus the pairs of cards that go together, for
those were taken off twice. So the whole order is one sum too: every rule is a digit of a large
number, wide enough that it never reaches into the digit above it. No two sets have the same score,
hence there is one best set, in whatever order a search comes across it.
"""

from dataclasses import dataclass

from gpustack.model.lru import remembered
from gpustack.model.topology.link_level import Level, Links, parse_link

PAIR_LEVELS = tuple(level for level in Level if level is not Level.SELF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A link matrix as numbers.

    Attributes:
        costs: of each pair.
        near: for each level and card the cards, as bits, that are that near or nearer; itself too.
        pairs: what a pair of cards adds to the score of a set that holds both.
        unit: what one unit of pair cost adds.
        digit: how many bits each level's digit has.
    """

    costs: tuple[tuple[int, ...], ...]
    near: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, ...], ...]
    unit: int
    digit: int


def _bytes_of(links: Links, _spread: bool) -> int:
    size = len(links)
    return 1024 + size * (700 + 26 * size + len(Level) * size // 7)


# A cluster has few kinds of machine: one of 8 cards takes 5 KB, of 256 some 2 MB.
@remembered(24 << 20, _bytes_of)
def machine(links: Links, spread: bool, /) -> Machine:
    """Read a matrix."""
    size = len(links)
    # A digit counts at most size² pairs. It may be negative as well, hence one bit more.
    digit = (4 * size * size).bit_length()
    unit = 1 << (digit * len(PAIR_LEVELS) + size)
    levels = [[parse_link(token).level for token in row] for row in links]
    weight = {
        token: _of_token(token, unit, digit, size, spread=spread)
        for token in {token for row in links for token in row}
    }
    return Machine(
        costs=tuple(tuple(parse_link(token).cost for token in row) for row in links),
        near=tuple(
            tuple(sum(1 << at for at, each in enumerate(row) if each <= level) for row in levels)
            for level in Level
        ),
        pairs=tuple(tuple(weight[token] for token in row) for row in links),
        unit=unit,
        digit=digit,
    )


def _of_token(token: str, unit: int, digit: int, size: int, *, spread: bool) -> int:
    link = parse_link(token)
    together = sum(
        1 << (digit * place + size)
        for place, level in enumerate(reversed(PAIR_LEVELS))
        if link.level <= level
    )
    return link.cost * unit + (together if spread else -together)


def singles(of: Machine, free: int, *, spread: bool) -> list[int]:
    """Return what each card adds to the score of a set by itself, of these free cards."""
    size = len(of.near[0])
    found = []
    for card in range(size):
        parted = 0
        for level in PAIR_LEVELS:
            others = (of.near[level][card] & free & ~(1 << card)).bit_count()
            parted = (parted << of.digit) + others
        parted <<= size
        lowest = 1 << (size - 1 - card)
        found.append((-parted if spread else parted) - lowest)
    return found


def least_cost(of: Machine, score: int) -> int:
    """Return the lowest sum of pair costs that a set of this score or a higher one can have."""
    # What stands below the cost is less than half a unit, up or down.
    return max(0, -((of.unit - 2 * score) // (2 * of.unit)))
