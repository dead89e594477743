"""`original`: the evaluators of gpu-manager over its tree, made deterministic.

The rules are those of gpu-manager's `link`, `fragment` and `share` evaluators at its last commit
(8cd842ed, 2023), whose ties depended on the order of a hash map; here the group with the lowest
card wins, as it did up to v1.1.5. Its scheduler half, gpu-admission, takes the fullest node first,
which is `exact`'s order under binpack.

A card counts as available while nothing at all is taken of it. The original knew neither unhealthy
cards nor a user's conditions; cards that these rule out count as not available, and a choice that
breaks a topology demand is passed over for the next group. Where its rules have no more to offer,
and for cards that an init container needs beyond its pod's own, `exact`'s order follows, so that
nothing is refused that fits. What a pod says of binpack and spread, the original didn't hear.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

from gpustack.model.node import Node
from gpustack.model.policies.base import Policy, with_strategy
from gpustack.model.request import PodRequest, Strategy
from gpustack.model.search.demand import Demand, joins
from gpustack.model.topology import card_tree


@dataclass(frozen=True, slots=True)
class Original(Policy):
    """Link for several cards, fragment for one, best fit for a share."""

    name: ClassVar[str] = "original"

    def read(self, request: PodRequest) -> PodRequest:
        """Return the pod without its wishes to be spread."""
        return with_strategy(request, Strategy.BINPACK)

    def wholes(
        self, node: Node, request: PodRequest, demand: Demand, exact: Iterator[tuple[int, ...]]
    ) -> Iterator[tuple[int, ...]]:
        """Yield the original's answer, its next ones, and then all other sets."""
        if demand.forced:
            yield from exact
            return
        together = joins(node, request.topology)
        given: set[tuple[int, ...]] = set()
        for cards in evaluate(card_tree.of(node), frozenset(demand.candidates), demand.count):
            joined = all(together[one] >> two & 1 for one, two in combinations(cards, 2))
            if joined and cards not in given:
                given.add(cards)
                yield cards
        yield from (cards for cards in exact if cards not in given)


def evaluate(
    root: card_tree.Branch, available: frozenset[int], count: int
) -> Iterator[tuple[int, ...]]:
    """Yield the original's choice of `count` whole cards (positions), and what it takes next."""
    groups = link(root, available, count) if count > 1 else fragment(root, available, count)
    for group in groups:
        cards = _available(group, available)
        if len(cards) >= count:
            yield cards[:count]


def link(root: card_tree.Branch, available: frozenset[int], count: int) -> list[card_tree.Branch]:
    """Return the groups to take nearest cards from, best first; the root is the last resort.

    From each card the original climbs to the first group that has enough available cards. It orders
    what it met by level, number of available cards, and (ours) lowest card.
    """
    met = [
        group
        for group in card_tree.walk(root)
        if group is not root
        and len(_available(group, available)) >= count
        and any(len(_available(child, available)) < count for child in group.children)
    ]
    met.sort(key=lambda group: (group.level, len(_available(group, available)), group.cards))
    return [*met, root]


def fragment(
    root: card_tree.Branch, available: frozenset[int], count: int
) -> list[card_tree.Branch]:
    """Return the group that a walk down from the root ends in, and the ones on its way, last first.

    At each step the walk enters the child with the fewest available cards that are still enough.
    Cards that hang directly under a group are no children to it: the original passes them over.
    """
    way = [root]
    while True:
        inner = [
            child
            for child in way[-1].children
            if child.children and len(_available(child, available)) >= count
        ]
        if not inner:
            return way[::-1]
        way.append(min(inner, key=lambda child: (len(_available(child, available)), child.cards)))


def _available(group: card_tree.Branch, available: frozenset[int]) -> tuple[int, ...]:
    return tuple(card for card in group.cards if card in available)
