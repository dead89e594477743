"""Whole cards for one container: the demand of a pod put as a query to `card_set_search`."""

from collections.abc import Iterator

from gpustack.model.node import Node
from gpustack.model.request import PodRequest, Strategy, Topology
from gpustack.model.search import card_set_enumeration, card_set_search
from gpustack.model.search.demand import Demand, as_bits, joins, links_of


def choices(node: Node, request: PodRequest, demand: Demand) -> Iterator[tuple[int, ...]]:
    """Yield the sets of cards that meet the demand, best first, as far as they differ.

    The first one comes from the search that remembers. The others are looked for only when a caller
    comes back for more, which it does when the first blocks another container of the pod. Cards of
    one mark that may be together with the same others are alike to the rest of the pod; so of sets
    that differ in such cards only the best is offered, for where it fails the others fail.
    """
    alike = not node.links and request.topology is Topology.BEST_EFFORT
    if alike:  # of cards that nothing tells apart the lowest ones are the best
        lowest = _lowest(demand)
        if lowest is None:
            return
        demand.effort.spend(len(demand.candidates))
        yield lowest
    question = card_set_search.CardSetQuery(
        links=links_of(node),
        free=as_bits(index for index in node.healthy if node.uses[index].idle),
        candidates=as_bits(demand.candidates),
        count=demand.count,
        joins=joins(node, request.topology),
        forced=as_bits(demand.forced),
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


def _lowest(demand: Demand) -> tuple[int, ...] | None:
    """Return the lowest cards of a demand, those that must be in among them; None if too few."""
    others = [card for card in demand.candidates if card not in demand.forced]
    missing = demand.count - len(demand.forced)
    if not 0 <= missing <= len(others):
        return None
    return tuple(sorted((*demand.forced, *others[:missing])))
