"""The cards that one container of whole cards may have, and which of them may be together."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpustack.model.node import Node
from gpustack.model.request import PodRequest, Topology
from gpustack.model.search.budget import SearchBudget
from gpustack.model.topology.link_level import FARTHEST_TOKEN, SELF_TOKEN, Level, Links


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The cards to choose from, as positions in `node.cards`, ascending.

    Attributes:
        count: how many to choose.
        candidates: cards that are healthy, accepted by the pod, and wholly free.
        forced: those of them that must be in the set.
        marks: of each card of the node, what tells it from others for the rest of the pod; left
            out, its size.
        effort: where work is counted, and sets are noted that may not be the best.
    """

    count: int
    candidates: tuple[int, ...]
    forced: tuple[int, ...] = ()
    marks: tuple[int, ...] = ()
    effort: SearchBudget = field(default_factory=SearchBudget, compare=False)


def usable(node: Node, request: PodRequest) -> list[int]:
    """Return the positions of the healthy cards that the pod accepts."""
    cards = node.cards
    return [at for at in node.healthy if request.accepts(cards[at].model, cards[at].uuid)]


def joins(node: Node, demand: Topology) -> tuple[int, ...]:
    """Return for each card the set of cards that `demand` lets it be together with."""
    size = len(node.cards)
    if demand is Topology.BEST_EFFORT:
        return ((1 << size) - 1,) * size
    if not node.links:  # where nothing is known of them, only a NUMA node may join two cards
        numas = [card.numa if demand is Topology.SINGLE_NUMA else None for card in node.cards]
        masks = {
            numa: as_bits(at for at, each in enumerate(numas) if each == numa) for numa in numas
        }
        return tuple(1 << at if each is None else masks[each] for at, each in enumerate(numas))
    return tuple(
        as_bits(other for other in range(size) if meets(node, demand, card, other))
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
    """Return the node's links; where they are unknown, every pair is the farthest."""
    if node.links:
        return node.links
    size = range(len(node.cards))
    return tuple(tuple(SELF_TOKEN if a == b else FARTHEST_TOKEN for b in size) for a in size)


def as_bits(indexes: Iterable[int]) -> int:
    """Return a set of cards, by their positions, as an integer with their bits."""
    return sum(1 << index for index in indexes)
