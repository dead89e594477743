"""What stands in a container's way on one card, and on a node as a whole.

Every card has one first reason, looked for in a fixed order: its health, the user's lists of
models and UUIDs, then what is free of it. A node's reason is that of the cards that came nearest.
"""

from collections import Counter

from gpustack.model import units
from gpustack.model.node import Node
from gpustack.model.refusal import CardRefusal, Reason, Refusal
from gpustack.model.request import ContainerRequest, PodRequest, Topology
from gpustack.model.search.demand import usable

# Nearest to fitting last.
_STAGES = (
    Reason.UNHEALTHY_CARDS,
    Reason.WRONG_MODEL,
    Reason.NO_WHOLE_CARD,
    Reason.INSUFFICIENT_CORE,
    Reason.INSUFFICIENT_MEMORY,
)


def of_card(
    node: Node, request: PodRequest, container: ContainerRequest, index: int
) -> Reason | None:
    """Return the first reason why the card at `index` can't serve the container, or None."""
    card = node.cards[index]
    if not card.healthy:
        return Reason.UNHEALTHY_CARDS
    if not request.accepts(card.model, card.uuid):
        return Reason.WRONG_MODEL
    if not container.is_share:
        return None if node.uses[index].idle else Reason.NO_WHOLE_CARD
    if node.free_cores(index) < container.cores:
        return Reason.INSUFFICIENT_CORE
    if node.free_memory_units(index) < container.memory_units:
        return Reason.INSUFFICIENT_MEMORY
    return None


def explain(node: Node, request: PodRequest, container: ContainerRequest) -> Refusal:
    """Return the refusal of a container that found no choice on this node."""
    found = [
        (card.minor, of_card(node, request, container, index))
        for index, card in enumerate(node.cards)
    ]
    cards = tuple(CardRefusal(minor=minor, reason=why) for minor, why in found if why is not None)
    fitting = len(found) - len(cards)
    reason = _reason(request, container, [each.reason for each in cards], fitting)
    return Refusal(reason=reason, cards=cards, detail=_detail(node, request, container, fitting))


def _reason(
    request: PodRequest, container: ContainerRequest, reasons: list[Reason], fitting: int
) -> Reason:
    if container.is_share:
        # Cards that fit were free to others only: the pod's own init rule left none.
        return max(reasons, key=_STAGES.index, default=Reason.INSUFFICIENT_CORE)
    count = container.whole_cards
    if fitting >= count:
        demanded = request.topology is not Topology.BEST_EFFORT
        return Reason.TOPOLOGY_UNMET if demanded else Reason.NO_WHOLE_CARD
    seen = Counter(reasons)
    reach = fitting
    # Which obstacle, if it alone and all nearer ones were gone, would leave enough cards?
    for stage in (Reason.NO_WHOLE_CARD, Reason.WRONG_MODEL, Reason.UNHEALTHY_CARDS):
        reach += seen[stage]
        if reach >= count:
            return stage
    return Reason.NO_WHOLE_CARD


def _detail(node: Node, request: PodRequest, container: ContainerRequest, fitting: int) -> str:
    what = f"container {container.name!r} on node {node.name}"
    if not container.is_share:
        demand = request.topology.value
        return (
            f"{what}: {container.whole_cards} whole cards wanted ({demand}), "
            f"{fitting} of {len(node.cards)} could serve"
        )
    cards = usable(node, request)
    cores = max(map(node.free_cores, cards), default=0)
    memory = max(map(node.free_memory_units, cards), default=0)
    return (
        f"{what}: {container.cores} cores and {units.memory_text(container.memory_units)} of one "
        f"card wanted; the most that any acceptable card has free is {cores} cores, "
        f"{memory} units ({units.size_text(memory)}){_larger_than_any(node, container)}"
    )


def _larger_than_any(node: Node, container: ContainerRequest) -> str:
    """Say what was probably meant by an amount that no card of the node has."""
    most = max((card.memory_units for card in node.cards), default=0)
    meant = units.meant_text(container.memory_units)
    return f"; {meant}" if meant and container.memory_units > most else ""
