"""What the cluster would have to have: cards repaired, cards added."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpustack.model.explain.query import Change, Kind, Query, largest
from gpustack.model.node import Card, Node
from gpustack.model.placement import Placement
from gpustack.model.request import ContainerKind, PodRequest
from gpustack.model.search.demand import usable
from gpustack.model.topology.link_level import FARTHEST_TOKEN, SELF_TOKEN, Links, parse_link

MOST_REPAIRS: Final = 2_000
"""Sets of cards that are tried: a quarter of a second."""

_MOST_REDUCED: Final = 50  # nodes on which a set is looked for when the bound was reached


@dataclass(frozen=True, slots=True, kw_only=True)
class _Broken:
    """A node's unhealthy cards, and how many of them must come back at least."""

    node: Node
    cards: tuple[Card, ...]
    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repaired:
    cards: tuple[Card, ...]
    placement: Placement
    smallest: bool


def search(question: Query) -> Iterator[Change]:
    """Yield what would have to be there."""
    yield from _repaired(question)
    yield from _more_cards(question)


def _repaired(question: Query) -> Iterator[Change]:
    """Find the fewest unhealthy cards of one node that must come back."""
    broken = [
        _Broken(node=node, cards=cards, least=_least_repairs(node, question.request))
        for node in question.kinds
        if (cards := tuple(card for card in node.cards if not card.healthy))
        and _after_repair(question, node, cards) is not None
    ]
    broken.sort(key=lambda each: (each.least, each.node.name))
    found = _fewest_repairs(question, broken) or _repairs_needed(question, broken)
    if found is not None:
        names = tuple(f"{card.minor} ({card.uuid or 'no UUID'})" for card in found.cards)
        one = len(names) == 1
        yield Change(
            kind=Kind.CARDS_REPAIRED,
            text=f"{'card' if one else 'cards'} {', '.join(names)} of {found.placement.node} "
            f"{'is' if one else 'are'} healthy again",
            request=question.request,
            placement=found.placement,
            names=names,
            smallest=found.smallest,
        )


def _fewest_repairs(question: Query, broken: Sequence[_Broken]) -> _Repaired | None:
    """Try sets by size over all nodes; None when the bound comes first."""
    tries = 0
    for size in range(1, max((len(each.cards) for each in broken), default=0) + 1):
        for each in broken:
            sets = itertools.combinations(each.cards, size) if each.least <= size else ()
            for cards in sets:
                tries += 1
                if tries > MOST_REPAIRS:
                    return None
                placement = _after_repair(question, each.node, cards)
                if placement is not None:
                    return _Repaired(cards=cards, placement=placement, smallest=True)
    return None


def _repairs_needed(question: Query, broken: Sequence[_Broken]) -> _Repaired | None:
    """Return the smallest of the sets that are left when cards stay broken wherever they can."""
    best: _Repaired | None = None
    for each in broken[:_MOST_REDUCED]:
        cards, placement = each.cards, _after_repair(question, each.node, each.cards)
        for card in each.cards:
            fewer = tuple(other for other in cards if other is not card)
            still = _after_repair(question, each.node, fewer)
            if still is not None:
                cards, placement = fewer, still
        if placement is not None and (best is None or len(cards) < len(best.cards)):
            proven = len(cards) == broken[0].least
            best = _Repaired(cards=cards, placement=placement, smallest=proven)
    return best


def _least_repairs(node: Node, request: PodRequest) -> int:
    """Return how many cards are missing for the pod's whole cards, and at least one."""
    wanted = sum(
        each.whole_cards for each in request.containers if each.kind is not ContainerKind.INIT
    )
    return max(1, wanted - sum(node.uses[index].idle for index in usable(node, request)))


def _after_repair(question: Query, node: Node, cards: tuple[Card, ...]) -> Placement | None:
    healthy = tuple(replace(c, healthy=True) if c in cards else c for c in node.cards)
    return question.fits(replace(node, cards=healthy), question.request)


def _more_cards(question: Query) -> Iterator[Change]:
    """Find the smallest number of free cards that one node would need on top."""
    most = sum(each.card_count for each in question.request.containers)
    like = {
        node.name: node.cards[cards[0]]
        for node in question.kinds
        if (cards := usable(node, question.request))
    }

    def with_added(node: Node, less: int) -> Placement | None:
        return question.fits(grown(node, like[node.name], -less), question.request)

    nodes = [node for node in question.kinds if node.name in like]
    found = largest(nodes, -most, -1, with_added)
    if found is not None:
        count, placement = -found[0], found[1]
        card = like[placement.node]
        more = "one more" if count == 1 else f"{count} more"
        named = f" {card.model}" if card.model else ""
        yield Change(
            kind=Kind.MORE_CARDS,
            text=f"node {placement.node} has {more} free{named}, joined like card {card.minor}",
            request=question.request,
            placement=placement,
            count=count,
        )


def grown(node: Node, like: Card, count: int) -> Node:
    """Return the node with `count` more free cards, each joined to the others as `like` is.

    To `like` itself, and to each other, they are joined as `like` is to its nearest neighbour.
    """
    at = node.cards.index(like)
    last = node.cards[-1].minor
    added = tuple(replace(like, minor=last + step, uuid="", bus="") for step in range(1, count + 1))
    uses = (*node.uses, *(type(node.uses[at])() for _ in added))
    links, paths = _grown(node.links, at, count), _grown(node.paths, at, count)
    return replace(node, cards=(*node.cards, *added), uses=uses, links=links, paths=paths)


def _grown(links: Links, at: int, count: int) -> Links:
    if not links:
        return ()
    others = [token for index, token in enumerate(links[at]) if index != at]
    near = min(others, key=lambda token: parse_link(token).cost, default=FARTHEST_TOKEN)
    size = len(links)

    def token(row: int, column: int) -> str:
        if row == column:
            return SELF_TOKEN
        one, two = (at if index >= size else index for index in (row, column))
        return near if one == two else links[one][two]

    every = range(size + count)
    return tuple(tuple(token(row, column) for column in every) for row in every)
