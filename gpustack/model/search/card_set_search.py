"""The best n cards of a node: exact, by branch and bound.

Of all sets of n cards in which every pair may be together, the best is the one whose worst pair is
nearest (it fits into the smallest group), and of those the one with the lowest score (`objective`:
pair costs, then what stays free, then the lowest cards). So the search asks for sets of NVLinks
only, then for such that stay below one switch, and so on, until a level has a set.

Cards that nothing can tell apart ("twins": the same links to all others) are taken in ascending
order only, so a machine on which every pair is alike has one set of n cards to look at.

Real machines of up to 32 cards, and random matrices of 16, are searched to the end; but a node
publishes its matrix itself, and one answer must not hold up a cluster's scheduling. So the search
counts the cards that it looks at, stops at a bound, and then says how far from the best it can be.
"""

from dataclasses import dataclass
from typing import Final

from gpustack.model.lru import LRUCache
from gpustack.model.search import objective
from gpustack.model.search.budget import Gap
from gpustack.model.topology.link_level import Level, Links

# The hardest of 1 000 random matrices of 16 cards takes 3 000, a PCIe tree of 32 cards 17 000.
_MOST_LOOKS: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSetQuery:
    """A search, complete and hashable, so that its answer can be remembered.

    Cards are positions in the node; a set of cards is an integer with their bits.

    Attributes:
        links: tokens of all pairs of the node; never empty.
        free: wholly free cards, also those that this pod doesn't accept.
        candidates: the cards to choose from; all of them free.
        count: how many cards are wanted, at least one.
        joins: for each card the cards that it may be together with.
        forced: candidates that must be in the set.
        spread: prefer the largest group to the smallest.
    """

    links: Links
    free: int
    candidates: int
    count: int
    joins: tuple[int, ...]
    forced: int = 0
    spread: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSet:
    """The end of a search.

    Attributes:
        cards: the set, ascending; None where none was found.
        gap: None where it is proven that no set is better, or that there is none.
        looks: what it cost; the same whether remembered or not.
    """

    cards: tuple[int, ...] | None
    gap: Gap | None
    looks: int


def bits(cards: int) -> list[int]:
    """Return the positions in a set of cards, ascending."""
    return [index for index in range(cards.bit_length()) if cards >> index & 1]


# A cluster asks the same few questions of like machines. One of 8 cards takes 2 KB, of 256 0.6 MB.
ANSWERS: Final[LRUCache[CardSetQuery, CardSet]] = LRUCache(48 << 20)


def best(question: CardSetQuery) -> CardSet:
    """Return the best set."""
    size = len(question.links)
    bytes_of = 512 + size * (64 + 8 * size) + size * (48 + size // 7)  # with a matrix of its own
    return ANSWERS.get_or_make(question, lambda: search(question), lambda _: bytes_of)


def search(question: CardSetQuery) -> CardSet:
    """Return the best set, without looking at what is remembered."""
    search = _Search(question)
    machine = search.machine
    gap: Gap | None = None
    # One card has no pair: it is asked for once, whatever the level.
    for level in objective.PAIR_LEVELS if question.count > 1 else (Level.SYS,):
        cards = search.within(machine.near[level])
        if search.stopped and gap is None:
            gap = Gap(level=level, cost=objective.least_cost(machine, search.least))
        if cards is not None:
            return CardSet(cards=cards, gap=gap, looks=search.looks)
    return CardSet(cards=None, gap=gap, looks=search.looks)


def higher_twins(question: CardSetQuery, machine: objective.Machine) -> list[int]:
    """Return for each card the candidates above it that nothing can tell from it.

    Two cards are twins when their costs to all others, and the cards that they may be together
    with, are the same. With the cost between the two written into both diagonals that is: when
    their rows are equal. (A cost belongs to one level only, so equal costs are equal levels.)
    """
    others = bits(question.free | question.candidates)
    costs = machine.costs
    above = [0] * len(costs)
    alike: dict[tuple[int, ...], int] = {}
    for card in reversed(bits(question.candidates & ~question.forced)):
        row = [costs[card][other] * 2 + (question.joins[card] >> other & 1) for other in others]
        at = others.index(card)
        for between in {*row[:at], *row[at + 1 :]}:
            row[at] = between
            key = tuple(row)
            above[card] |= alike.get(key, 0)
            alike[key] = alike.get(key, 0) | 1 << card
    return above


class _Search:
    """Depth-first walks, one for each level, for the set of the lowest score."""

    def __init__(self, question: CardSetQuery) -> None:
        self.machine = objective.machine(question.links, question.spread)
        self.stopped = False
        self.least = 0  # no set within the level asked for has a lower score
        self._question = question
        self.looks = 8 * len(question.links)  # to read the question
        self._most = _MOST_LOOKS
        self._singles = objective.singles(self.machine, question.free, spread=question.spread)
        self._above = higher_twins(question, self.machine)
        self._joined: list[int] = []
        self._nearest: dict[int, list[tuple[int, int]]] = {}
        self._found: tuple[int, int] | None = None  # score, cards

    def within(self, near: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the best set in which all pairs are `near`, None where none was found."""
        question, pairs = self._question, self.machine.pairs
        forced = bits(question.forced)
        self._joined = [a & b for a, b in zip(question.joins, near, strict=True)]
        pool, paid, reach = question.candidates & ~question.forced, 0, list(self._singles)
        for card in forced:
            if question.forced & ~self._joined[card] & ~(1 << card):
                return None
            paid += reach[card]
            pool &= self._joined[card]
            reach = [so_far + more for so_far, more in zip(reach, pairs[card], strict=True)]
        missing = question.count - len(forced)
        if missing == 0:
            return tuple(forced)
        pool = self._dense(pool, missing - 1)
        if missing < 0 or pool.bit_count() < missing:
            return None
        self._nearest = {
            card: sorted((pairs[card][other], 1 << other) for other in bits(pool) if other != card)
            for card in bits(pool)
        }
        self._found = None
        # Every level may look at least once for any set at all.
        self._most = max(self._most, self.looks + missing * len(pairs))
        self._grow(question.forced, pool, missing, paid, reach)
        return None if self._found is None else tuple(bits(self._found[1]))

    def _dense(self, pool: int, partners: int) -> int:
        """Return the cards of `pool` that have so many partners there, again and again."""
        while True:
            kept = pool
            for card in bits(pool):
                if (kept & self._joined[card] & ~(1 << card)).bit_count() < partners:
                    kept &= ~(1 << card)
            if kept == pool:
                return pool
            pool = kept

    def _grow(self, chosen: int, pool: int, missing: int, paid: int, reach: list[int]) -> None:
        """Complete `chosen` by `missing` cards (at least one) of `pool`, each joined to all of it.

        `paid` is the score of `chosen`, `reach` what each card of the pool adds to it.
        """
        if missing == 1:
            last = min(bits(pool), key=reach.__getitem__)
            score = paid + reach[last]
            if self._found is None or score < self._found[0]:
                self._found = score, chosen | 1 << last
            return
        self.looks += pool.bit_count()
        ranked = self._ranked(pool, missing, reach)
        twice = 2 * paid + sum(least for least, _ in ranked[:missing])
        if chosen == self._question.forced:
            self.least = -(-twice // 2)
        for at in range(len(ranked) - missing + 1):
            if self._found is not None and twice >= 2 * self._found[0]:
                return
            if self.looks > self._most:
                self.stopped = True
                return
            card = ranked[at][1]
            twice += (ranked[at + missing][0] if at + missing < len(ranked) else 0) - ranked[at][0]
            if not pool >> card & 1:
                continue
            rest = pool & self._joined[card] & ~(1 << card)
            if rest.bit_count() >= missing - 1:
                further = [a + b for a, b in zip(reach, self.machine.pairs[card], strict=True)]
                self._grow(chosen | 1 << card, rest, missing - 1, paid + reach[card], further)
            # From here on it is left out, and then so are its higher twins.
            pool &= ~(1 << card | self._above[card])

    def _ranked(self, pool: int, missing: int, reach: list[int]) -> list[tuple[int, int]]:
        """Return what each card would add at least, doubled, lowest first, with the card.

        It pays its way to the chosen ones, and half of its cheapest way to the other new ones (each
        such pair is paid once for two cards).
        """
        ranked = []
        for card in bits(pool):
            rest = pool & self._joined[card] & ~(1 << card)
            wanted = missing - 1
            if rest.bit_count() < wanted:
                continue
            least = 2 * reach[card]
            for weight, bit in self._nearest[card]:
                if rest & bit:
                    least += weight
                    wanted -= 1
                    if not wanted:
                        break
            ranked.append((least, card))
        ranked.sort()
        return ranked
