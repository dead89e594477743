"""The order in which a pod's containers are tried, and which cards are alike to them."""

from collections.abc import Collection

from gpustack.model.model_name import label_safe_model
from gpustack.model.node import Node
from gpustack.model.request import ContainerKind, ContainerRequest, PodRequest, Topology


def in_order(request: PodRequest, *, cores_first: bool) -> list[ContainerRequest]:
    """Return what runs together before init containers, whole cards before shares, largest first.

    With `cores_first` a share is large by its cores, which a quota counts; else by its memory.
    """

    def demand(each: ContainerRequest) -> tuple[object, ...]:
        sizes = -each.memory_units, -each.cores
        first = each.kind is ContainerKind.INIT, -each.whole_cards
        return *first, *(reversed(sizes) if cores_first else sizes), each.kind.value, each.index

    return sorted(request.containers, key=demand)


def marks(node: Node) -> tuple[int, ...]:
    """Return a number for each card, the same for cards of one size and model; small ones first."""
    kinds = [(card.memory_units, label_safe_model(card.model)) for card in node.cards]
    numbers = {kind: number for number, kind in enumerate(sorted(set(kinds)))}
    return tuple(numbers[kind] for kind in kinds)


def apart(usable: Collection[int], request: PodRequest, own: frozenset[int]) -> frozenset[int]:
    """Return the cards that no other stands for, though as much is taken of it.

    Init containers look at which cards the pod has (`own`), and those of whole cards at what these
    are joined to, too.
    """
    inits = [each for each in request.containers if each.kind is ContainerKind.INIT]
    joined = request.topology is not Topology.BEST_EFFORT
    if joined and any(each.whole_cards for each in inits):
        return frozenset(usable)
    return own if inits else frozenset()
