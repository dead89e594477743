"""The sets of n cards beside the best one, for pods in which the best one is in another's way."""

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from gpustack.model.search import objective
from gpustack.model.search.budget import Gap, SearchBudget
from gpustack.model.search.card_set_search import CardSet, CardSetQuery, bits, higher_twins
from gpustack.model.topology.link_level import Level

_FEW: Final = 4


def others(
    question: CardSetQuery, marks: tuple[int, ...], first: CardSet, effort: SearchBudget
) -> Iterator[tuple[int, ...]]:
    """Yield other sets than `first`, best first; of those that are alike, only the best one.

    Two sets are alike when they hold as many cards of each kind: cards of one mark (memory size)
    that may be together with the same others. Where half of the effort doesn't last to see all of
    them, the best ones seen come first, and behind a few of them the set of the lowest marks: where
    no pair is ruled out and only size counts, that one leaves room if any does.
    """
    if first.cards is None:
        return
    kinds = _kinds(question, marks)
    if len({kinds[card] for card in bits(question.candidates)}) < 2:
        return
    listing = _Listing(question, kinds, effort)
    listing.look()
    known = listing.kind_of(first.cards)
    ranked = sorted(entry for kind, entry in listing.found.items() if kind != known)
    sets = [cards for _, _, cards in ranked]
    doubt: Gap | None = None
    if listing.stopped:
        effort.cut = True
        doubt = Gap(level=listing.level(first.cards), cost=listing.cost(first.cards))
        lowest = _lowest(question, marks)
        if listing.allowed(lowest):
            sets.insert(_FEW, lowest)
    for cards in sets:
        effort.note(cards, doubt)
        yield cards


def _lowest(question: CardSetQuery, marks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the set of the lowest marks, and of these the lowest cards."""
    forced = bits(question.forced)
    others = bits(question.candidates & ~question.forced)
    others.sort(key=lambda card: (marks[card], card))
    return tuple(sorted((*forced, *others[: question.count - len(forced)])))


def _kinds(question: CardSetQuery, marks: tuple[int, ...]) -> list[int]:
    """Number the kinds of cards that are alike to the other containers of the pod."""
    numbers: dict[tuple[int, int], int] = {}
    kinds = []
    for card, mark in enumerate(marks):
        joined = question.joins[card] | 1 << card
        kinds.append(numbers.setdefault((mark, joined), len(numbers)))
    return kinds


class _Listing:
    """A walk over all sets of a question that keeps the best of each mixture of kinds.

    Attributes:
        found: (worst level, score, cards) for each mixture.
        stopped: True where the effort ended before the walk did.
    """

    def __init__(self, question: CardSetQuery, kinds: list[int], effort: SearchBudget) -> None:
        self.found: dict[int, tuple[int, int, tuple[int, ...]]] = {}
        self.stopped = False
        self._question = question
        self._kinds = kinds
        self._effort = effort
        self._reserve = effort.left // 2  # for trying what is found
        self._machine = objective.machine(question.links, question.spread)
        self._singles = objective.singles(self._machine, question.free, spread=question.spread)
        twins = higher_twins(question, self._machine)
        self._above = [
            sum(1 << card for card in bits(above) if kinds[card] == kinds[at])
            for at, above in enumerate(twins)
        ]

    def look(self) -> None:
        """Walk as far as the effort lasts."""
        forced = tuple(bits(self._question.forced))
        if self.allowed(forced) and len(forced) <= self._question.count:
            score = sum(self._singles[card] for card in forced)
            score += sum(self._machine.pairs[a][b] for a, b in combinations(forced, 2))
            pool = self._question.candidates & ~self._question.forced
            for card in forced:
                pool &= self._question.joins[card]
            self._grow(forced, pool, score)

    def allowed(self, cards: tuple[int, ...]) -> bool:
        """Say whether every pair may be together."""
        joins = self._question.joins
        return all(joins[a] >> b & 1 for a, b in combinations(cards, 2))

    def kind_of(self, cards: tuple[int, ...]) -> int:
        """Return a number that sets share when they hold as many cards of each kind."""
        width = len(self._kinds).bit_length()
        return sum(1 << width * self._kinds[card] for card in cards)

    def level(self, cards: tuple[int, ...]) -> Level:
        """Return the worst pair's level."""
        near = self._machine.near
        chosen = sum(1 << card for card in cards)
        return next(level for level in Level if all(chosen & ~near[level][c] == 0 for c in cards))

    def cost(self, cards: tuple[int, ...]) -> int:
        """Return the sum of the pair costs."""
        costs = self._machine.costs
        return sum(costs[a][b] for a, b in combinations(cards, 2))

    def _grow(self, chosen: tuple[int, ...], pool: int, score: int) -> None:
        """Complete `chosen`, of this score, with cards of `pool`, which go with all of it."""
        missing = self._question.count - len(chosen)
        if missing == 0:
            self._effort.spend(len(chosen))
            entry = int(self.level(chosen)), score, tuple(sorted(chosen))
            kind = self.kind_of(chosen)
            self.found[kind] = min(entry, self.found.get(kind, entry))
            return
        for card in bits(pool):
            if pool.bit_count() < missing or self.stopped:
                return
            if not pool >> card & 1:
                continue
            self._effort.spend(len(chosen) + 1)
            if self._effort.left < self._reserve:
                self.stopped = True
                return
            pool &= ~(1 << card)
            pairs = self._machine.pairs[card]
            more = self._singles[card] + sum(pairs[other] for other in chosen)
            self._grow((*chosen, card), pool & self._question.joins[card], score + more)
            pool &= ~self._above[card]  # left out from here on, and so are its higher twins
