"""Whole cards for one container: the demand of a pod put as a question to `cardset`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gpustack.model.node import Node
from gpustack.model.request import ContainerRequest, PodRequest, Strategy, Topology
from gpustack.model.search import card_set_enumeration, card_set_search
from gpustack.model.search.budget import SearchBudget
from gpustack.model.topology.link_level import FARTHEST_TOKEN, SELF_TOKEN, Level, Links


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The cards to choose from, as positions in `node.cards`, ascending.

    Attributes:
        candidates: cards that are healthy, accepted by the pod, and wholly free.
        forced: those of them that must be in the set.
        marks: of each card of the node, what tells it from others for the rest of the pod; left
            out, its size.
        effort: where work is counted, and sets are noted that may not be the best.
    """

    candidates: tuple[int, ...]
    forced: tuple[int, ...] = ()
    marks: tuple[int, ...] = ()
    effort: SearchBudget = field(default_factory=SearchBudget, compare=False)


def choices(
    node: Node, request: PodRequest, container: ContainerRequest, demand: Demand
) -> Iterator[tuple[int, ...]]:
    """Yield the sets of cards that meet the demand, best first, as far as they differ.

    The first one comes from the search that remembers. The others are looked for only when a caller
    comes back for more, which it does when the first blocks another container of the pod. Cards of
    one mark that may be together with the same others are alike to the rest of the pod; so of sets
    that differ in such cards only the best is offered, for where it fails the others fail.
    """
    alike = not node.links and request.topology is Topology.BEST_EFFORT
    if alike:  # of cards that nothing tells apart the lowest ones are the best
        lowest = _lowest(demand, container.whole_cards)
        if lowest is None:
            return
        demand.effort.spend(len(demand.candidates))
        yield lowest
    question = card_set_search.CardSetQuery(
        links=links_of(node),
        free=_set(i for i, card in enumerate(node.cards) if card.healthy and node.uses[i].idle),
        candidates=_set(demand.candidates),
        count=container.whole_cards,
        joins=joins(node, request.topology),
        forced=_set(demand.forced),
        spread=request.card_strategy is Strategy.SPREAD,
    )
    first = card_set_search.best(question)
    demand.effort.spend(first.looks)
    if first.cards is None:
        demand.effort.cut |= first.gap is not None
        return
    if not alike:
        demand.effort.note(first.cards, first.gap)
        yield first.cards
    marks = demand.marks or tuple(card.memory_units for card in node.cards)
    yield from card_set_enumeration.others(question, marks, first, demand.effort)


def _lowest(demand: Demand, count: int) -> tuple[int, ...] | None:
    """Return the lowest cards of a demand, those that must be in among them; None if too few."""
    others = [card for card in demand.candidates if card not in demand.forced]
    missing = count - len(demand.forced)
    if not 0 <= missing <= len(others):
        return None
    return tuple(sorted((*demand.forced, *others[:missing])))


def joins(node: Node, demand: Topology) -> tuple[int, ...]:
    """Return for each card the set of cards that `demand` lets it be together with."""
    size = len(node.cards)
    if demand is Topology.BEST_EFFORT:
        return ((1 << size) - 1,) * size
    if not node.links:  # where nothing is known of them, only a NUMA node may join two cards
        numas = [card.numa if demand is Topology.SINGLE_NUMA else None for card in node.cards]
        masks = {numa: _set(at for at, each in enumerate(numas) if each == numa) for numa in numas}
        return tuple(1 << at if each is None else masks[each] for at, each in enumerate(numas))
    return tuple(
        _set(other for other in range(size) if meets(node, demand, card, other))
        for card in range(size)
    )


def meets(node: Node, demand: Topology, first: int, second: int) -> bool:
    """Say whether two cards are joined as demanded. What isn't known doesn't meet a demand."""
    level = node.link(first, second).level
    if demand is Topology.BEST_EFFORT or first == second:
        return True
    if demand is Topology.NVLINK:
        return level is Level.NVLINK
    if demand is Topology.SINGLE_SWITCH:
        return level <= Level.PXB
    one, two = node.cards[first].numa, node.cards[second].numa
    if one is not None and two is not None:
        return one == two
    # NODE and nearer PCIe paths stay within a NUMA node; NVLink says nothing about the host.
    return Level.PIX <= level <= Level.NODE


def links_of(node: Node) -> Links:
    """Return the node's links; where nobody published them, every pair is the farthest."""
    if node.links:
        return node.links
    size = range(len(node.cards))
    return tuple(tuple(SELF_TOKEN if a == b else FARTHEST_TOKEN for b in size) for a in size)


def _set(indexes: Iterable[int]) -> int:
    return sum(1 << index for index in indexes)
