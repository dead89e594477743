"""The rules once more, by trying everything: what the model is compared with.

Written from contracts.md and nothing else, slowly and without any of the model's own arithmetic.
"""

import itertools
from collections.abc import Iterator

from gpustack.model.device import Node
from gpustack.model.request import ContainerKind, ContainerRequest, PodRequest, Topology
from gpustack.model.topology import Level, parse_link

Given = dict[ContainerRequest, tuple[int, ...]]
"""Positions of cards for each container."""


def fits_somehow(node: Node, request: PodRequest) -> bool:
    """Say whether any assignment of cards to containers obeys all rules."""
    return any(True for _ in assignments(node, request))


def assignments(node: Node, request: PodRequest) -> Iterator[Given]:
    """Yield every assignment that obeys all rules."""
    running = [each for each in request.containers if each.kind is not ContainerKind.INIT]
    first = [each for each in request.containers if each.kind is ContainerKind.INIT]
    first.sort(key=lambda each: (-each.whole_cards, -each.memory_units, -each.cores, each.index))
    cards = range(len(node.cards))
    for chosen in itertools.product(*(subsets(cards, each) for each in running)):
        given = dict(zip(running, chosen, strict=True))
        together = all(allowed(node, request, each, given[each]) for each in running)
        if together and within_capacity(node, given):
            yield from _with_init(node, request, given, first)


def subsets(cards: range, container: ContainerRequest) -> list[tuple[int, ...]]:
    """Every set of as many cards as the container asks."""
    return list(itertools.combinations(cards, max(1, container.cores // 100)))


def _with_init(
    node: Node, request: PodRequest, given: Given, first: list[ContainerRequest]
) -> Iterator[Given]:
    if not first:
        yield given
        return
    step, *later = first
    own = {index for indexes in given.values() for index in indexes}
    beside = {
        each: indexes
        for each, indexes in given.items()
        if each.kind is ContainerKind.SIDECAR and each.index < step.index
    }
    for indexes in subsets(range(len(node.cards)), step):
        uses_own = len(own & set(indexes)) == min(len(own), len(indexes))
        if not (uses_own and allowed(node, request, step, indexes)):
            continue
        if within_capacity(node, {**beside, step: indexes}):
            yield from _with_init(node, request, {**given, step: indexes}, later)


def allowed(
    node: Node, request: PodRequest, container: ContainerRequest, indexes: tuple[int, ...]
) -> bool:
    """Say whether these cards are healthy, acceptable and joined as demanded."""
    if not all(node.cards[i].healthy and request.accepts(node.cards[i]) for i in indexes):
        return False
    pairs = itertools.combinations(indexes, 2)
    return all(_joined(node, request.topology, a, b) for a, b in pairs)


def _joined(node: Node, demand: Topology, a: int, b: int) -> bool:
    level = parse_link(node.links[a][b]).level if node.links else Level.SYS
    if demand is Topology.NVLINK:
        return level is Level.NVLINK
    if demand is Topology.SINGLE_SWITCH:
        return level in {Level.NVLINK, Level.PIX, Level.PXB}
    if demand is Topology.SINGLE_NUMA:
        one, two = node.cards[a].numa, node.cards[b].numa
        if one is None or two is None:
            return level in {Level.PIX, Level.PXB, Level.PHB, Level.NODE}
        return one == two
    return True


def within_capacity(node: Node, given: Given) -> bool:
    """Say whether containers that run together fit, whole cards alone on theirs."""
    for index, card in enumerate(node.cards):
        here = [each for each, indexes in given.items() if index in indexes]
        whole = [each for each in here if each.cores >= 100]
        use = node.uses[index]
        if whole and (len(here) > 1 or use.cores or use.memory_units):
            return False
        shares = [each for each in here if each.cores < 100]
        if shares and (
            use.cores + sum(each.cores for each in shares) > 100
            or use.memory_units + sum(each.memory_units for each in shares)
            > card.memory_bytes // (256 << 20)
        ):
            return False
    return True
