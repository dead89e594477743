"""The best n cards of a node: exact, by branch and bound.

A set of cards is better than another, in this order:

1. its worst pair is nearer (it fits into a smaller group);
2. the sum of its pair costs is lower;
3. what stays free is joined more closely: with the pairs that remain counted at each level, the
   nearest level first, more is better (it takes from the group that is left smallest, and a card
   that hangs alone goes first); to spread, fewer is better;
4. its cards are lower.

Cards that no rule can tell apart ("twins": the same links to all others) are taken in ascending
order only, so a machine on which every pair is alike has one set of n cards to look at.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from gpustack.model.topology import Level, Links, parse_link

_PAIR_LEVELS = tuple(level for level in Level if level is not Level.SELF)

Key = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""(worst level, sum of pair costs, what stays free, the set): smaller is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A search, complete and hashable, so that its answer can be remembered.

    Cards are positions in the node; a set of cards is an integer with their bits.

    Attributes:
        links: tokens of all pairs of the node; never empty.
        free: wholly free cards, also those that this pod doesn't accept.
        candidates: the cards to choose from.
        count: how many cards are wanted.
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
class _Machine:
    """A link matrix as numbers, and at each level the cards that are that near or nearer."""

    levels: tuple[tuple[int, ...], ...]
    costs: tuple[tuple[int, ...], ...]
    near: tuple[tuple[int, ...], ...]


def bits(cards: int) -> list[int]:
    """Return the positions in a set of cards, ascending."""
    return [index for index in range(cards.bit_length()) if cards >> index & 1]


@functools.lru_cache(maxsize=4096)  # a cluster asks the same few questions of like machines
def best(question: Question) -> tuple[int, ...] | None:
    """Return the best set, ascending; None when no set meets the question."""
    machine = _machine(question.links)
    for level in Level if question.count < 2 else _PAIR_LEVELS:
        joins = tuple(
            allowed & near
            for allowed, near in zip(question.joins, machine.near[level], strict=True)
        )
        search = _Search(question, machine, joins)
        search.visit(bits(question.forced), 0)
        if search.found is not None:
            return search.found[-1]
    return None


def every(question: Question, marks: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return all sets, best first; of sets that differ only in equal twins, the lowest one.

    `marks` holds a number for each card; twins with different marks are not equal (memory size).
    """
    machine = _machine(question.links)
    order = _order(question, machine, question.joins, marks)
    found = [_key(question, machine, cards) for cards in _sets(question, order)]
    return [key[-1] for key in sorted(found)]


@functools.lru_cache(maxsize=256)
def _machine(links: Links) -> _Machine:
    pairs = [[parse_link(token) for token in row] for row in links]
    levels = tuple(tuple(int(link.level) for link in row) for row in pairs)
    near = tuple(
        tuple(sum(1 << index for index, at in enumerate(row) if at <= level) for row in levels)
        for level in Level
    )
    costs = tuple(tuple(link.cost for link in row) for row in pairs)
    return _Machine(levels=levels, costs=costs, near=near)


def _key(question: Question, machine: _Machine, cards: tuple[int, ...]) -> Key:
    pairs = [(a, b) for at, a in enumerate(cards) for b in cards[at + 1 :]]
    worst = max((machine.levels[a][b] for a, b in pairs), default=int(Level.SELF))
    cost = sum(machine.costs[a][b] for a, b in pairs)
    return worst, cost, _left(question, machine, cards), cards


def _left(question: Question, machine: _Machine, cards: tuple[int, ...]) -> tuple[int, ...]:
    """Count the pairs that stay free at each level, nearest first, so that less is better."""
    rest = question.free & ~sum(1 << card for card in cards)
    members = bits(rest)
    sign = 1 if question.spread else -1
    return tuple(
        sign * sum((machine.near[level][card] & rest).bit_count() for card in members)
        for level in _PAIR_LEVELS
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """The candidates beside the forced ones, ascending, and each one's next lower twin."""

    cards: tuple[int, ...]
    twin: tuple[int | None, ...]  # in the order of `cards`
    joins: tuple[int, ...]


def _order(
    question: Question, machine: _Machine, joins: tuple[int, ...], marks: tuple[int, ...]
) -> _Order:
    """Find the twins. Being twins is transitive, so the next lower one speaks for all lower."""
    cards = tuple(bits(question.candidates & ~question.forced))
    others = bits(question.free | question.candidates)
    twins: list[int | None] = []
    for at, card in enumerate(cards):
        lower = (
            other
            for other in reversed(cards[:at])
            if marks[other] == marks[card] and _twins(machine, joins, others, card, other)
        )
        twins.append(next(lower, None))
    return _Order(cards=cards, twin=tuple(twins), joins=joins)


def _twins(
    machine: _Machine, joins: tuple[int, ...], others: list[int], one: int, two: int
) -> bool:
    apart = ~(1 << one | 1 << two)
    if joins[one] & apart != joins[two] & apart:
        return False
    left, right = machine.costs[one], machine.costs[two]
    # A cost belongs to one level only, so equal costs are equal levels.
    return all(left[card] == right[card] for card in others if card not in {one, two})


def _joined(joins: tuple[int, ...], cards: list[int]) -> bool:
    return all(joins[a] >> b & 1 for at, a in enumerate(cards) for b in cards[at + 1 :])


def _sets(question: Question, order: _Order) -> Iterator[tuple[int, ...]]:
    """Yield every allowed set, of equal twins the lowest ones only."""

    def grow(chosen: list[int], start: int) -> Iterator[tuple[int, ...]]:
        if len(chosen) == question.count:
            yield tuple(sorted(chosen))
            return
        for at in range(start, len(order.cards) - (question.count - len(chosen)) + 1):
            card, twin = order.cards[at], order.twin[at]
            allowed = all(order.joins[card] >> other & 1 for other in chosen)
            if allowed and (twin is None or twin in chosen):
                yield from grow([*chosen, card], at + 1)

    forced = bits(question.forced)
    if len(forced) <= question.count and _joined(order.joins, forced):
        yield from grow(forced, 0)


class _Search:
    """One depth-first walk for the cheapest set in which every pair is allowed by `joins`."""

    def __init__(self, question: Question, machine: _Machine, joins: tuple[int, ...]) -> None:
        self.found: Key | None = None
        self._question = question
        self._machine = machine
        self._order = _order(question, machine, joins, (0,) * len(joins))
        pool = self._order.cards
        self._nearest = {  # sums of a card's k smallest costs to the other candidates
            card: _prefix_sums(machine.costs[card][other] for other in pool if other != card)
            for card in pool
        }

    def visit(self, chosen: list[int], start: int) -> None:
        """Try every way to complete `chosen` with candidates from position `start` on."""
        if not _joined(self._order.joins, chosen):
            return
        costs = self._machine.costs
        reach = {card: sum(costs[card][c] for c in chosen) for card in self._order.cards}
        paid = sum(costs[a][b] for at, a in enumerate(chosen) for b in chosen[at + 1 :])
        self._grow(chosen, start, paid, reach)

    def _grow(self, chosen: list[int], start: int, paid: int, reach: dict[int, int]) -> None:
        missing = self._question.count - len(chosen)
        if missing == 0:
            self._keep(tuple(sorted(chosen)))
            return
        order = self._order
        costs = self._machine.costs
        for at in range(start, len(order.cards) - missing + 1):
            if self._hopeless(at, missing, paid, reach):
                return
            card, twin = order.cards[at], order.twin[at]
            if twin is not None and twin not in chosen:
                continue
            if not all(order.joins[card] >> other & 1 for other in chosen):
                continue
            further = {c: reach[c] + costs[card][c] for c in order.cards[at + 1 :]}
            self._grow([*chosen, card], at + 1, paid + reach[card], further)

    def _hopeless(self, start: int, missing: int, paid: int, reach: dict[int, int]) -> bool:
        """Say whether no completion from `start` on can cost as little as the best one found.

        Each new card pays its way to the chosen ones, and at least half of its cheapest way to
        the other new ones (each such pair is paid once for two cards).
        """
        if self.found is None:
            return False
        pool = self._order.cards[start:]
        twice = sorted(2 * reach[card] + self._nearest[card][missing - 1] for card in pool)
        return 2 * paid + sum(twice[:missing]) > 2 * self.found[1]

    def _keep(self, cards: tuple[int, ...]) -> None:
        key = _key(self._question, self._machine, cards)
        if self.found is None or key < self.found:
            self.found = key


def _prefix_sums(costs: Iterator[int]) -> list[int]:
    sums = [0]
    for cost in sorted(costs):
        sums.append(sums[-1] + cost)
    return sums
