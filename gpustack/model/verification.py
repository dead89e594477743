"""Another writer's answer, checked: is this decision possible, and is it what the pod asks?

The agent obeys the decision that the extender wrote, but only after this check: a user can write
annotations too, cards are renumbered and fail, and two schedulers may have decided at once.
"""

from collections.abc import Iterable, Mapping

from gpustack.model.node import Node
from gpustack.model.placement import ContainerPlacement, Placement, holds
from gpustack.model.refusal import CardRefusal, Reason, Refusal
from gpustack.model.request import ContainerRequest, PodRequest
from gpustack.model.search.demand import meets
from gpustack.model.units import CORES_PER_CARD, memory_text, size_text


def verify(node: Node, placement: Placement, request: PodRequest) -> Refusal | None:
    """Return why `placement` may not be carried out on `node`; None when it may.

    `node.uses` holds what the other pods take, without this one.
    """
    return (
        _unjustified(node, placement, request)
        or wrong_cards(node, placement.containers)
        or _unwanted_cards(node, placement, request)
        or _taken_cards(node, placement)
    )


def _unjustified(node: Node, placement: Placement, request: PodRequest) -> Refusal | None:
    if placement.node != node.name:
        return _no(Reason.UNJUSTIFIED_DECISION, f"it is for node {placement.node!r}")
    given = {(each.kind, each.index): each for each in placement.containers}
    asked = {(each.kind, each.index): each for each in request.containers}
    if len(given) != len(placement.containers) or given.keys() != asked.keys():
        names = ", ".join(each.name for each in placement.containers)
        return _no(Reason.UNJUSTIFIED_DECISION, f"it gives cards to other containers: {names}")
    for key, container in asked.items():
        problem = mismatch(container, given[key])
        if problem:
            return _no(Reason.UNJUSTIFIED_DECISION, problem)
    return None


def mismatch(asked: ContainerRequest, given: ContainerPlacement) -> str:
    """Say how what a container is given differs from what it asks; empty when it doesn't."""
    if (asked.cores, asked.memory_units) != (given.cores, given.memory_units):
        return (
            f"container {asked.name!r} asks {asked.cores} cores and "
            f"{memory_text(asked.memory_units)}, and is given {given.cores} and "
            f"{given.memory_units} ({size_text(given.memory_units)})"
        )
    count = len(given.minors)
    if count != asked.card_count or len(set(given.minors)) != count or len(given.uuids) != count:
        return (
            f"container {asked.name!r} asks {asked.card_count} different cards, "
            f"and is given {','.join(map(str, given.minors))}"
        )
    return ""


def wrong_cards(node: Node, containers: Iterable[ContainerPlacement]) -> Refusal | None:
    """Return why minors and UUIDs that were written down are not the node's; None when they are.

    A minor that leads to another card is told before one that leads nowhere: only the first gives
    a container what may be another's.
    """
    now = {card.uuid: card.minor for card in node.cards if card.uuid}
    found = [
        refusal
        for container in containers
        for minor, uuid in zip(container.minors, container.uuids, strict=True)
        if (refusal := _wrong_card(node, now, minor, uuid)) is not None
    ]
    return min(found, key=lambda each: each.reason is not Reason.CARD_RENUMBERED, default=None)


def _wrong_card(node: Node, now: Mapping[str, int], minor: int, uuid: str) -> Refusal | None:
    index = node.index_of(minor)
    elsewhere = f"; that one is card {now[uuid]} now" if uuid in now else ""
    if index is None:
        reason = Reason.CARD_RENUMBERED if elsewhere else Reason.UNKNOWN_CARD
        return _no(reason, f"node {node.name} has no card {minor}{elsewhere}", minor)
    present = node.cards[index].uuid
    if uuid and present and uuid != present:
        text = f"card {minor} of {node.name} is {present}, the decision says {uuid}"
        return _no(Reason.CARD_RENUMBERED, text + elsewhere, minor)
    return None


def _unwanted_cards(node: Node, placement: Placement, request: PodRequest) -> Refusal | None:
    for container in placement.containers:
        indexes = node.indexes_of(container.minors)
        for index in indexes:
            card = node.cards[index]
            if not card.healthy:
                since = f" since {card.since}" if card.since else ""
                why = f": {card.reason}" if card.reason else ""
                text = f"card {card.minor} is unhealthy{since}{why}"
                return _no(Reason.UNHEALTHY_CARDS, text, card.minor)
            if not request.accepts(card.model, card.uuid):
                text = f"the pod does not accept card {card.minor} ({card.model}, {card.uuid})"
                return _no(Reason.WRONG_MODEL, text, card.minor)
        for one in indexes:
            for two in indexes:
                if not meets(node, request.topology, one, two):
                    a, b = node.cards[one].minor, node.cards[two].minor
                    text = f"cards {a} and {b} are not joined as {request.topology.value} demands"
                    return _no(Reason.TOPOLOGY_UNMET, text, a)
    return None


def _taken_cards(node: Node, placement: Placement) -> Refusal | None:
    for index, hold in sorted(holds(node, placement).items()):
        card, use = node.cards[index], node.uses[index]
        text = (
            f"card {card.minor} has {node.free_cores(index)} cores and "
            f"{memory_text(node.free_memory_units(index))} free; {hold.cores} and "
            f"{hold.memory_units} ({size_text(hold.memory_units)}) are decided"
        )
        if hold.cores == CORES_PER_CARD and _is_whole(placement, card.minor) and not use.idle:
            return _no(Reason.NO_WHOLE_CARD, text, card.minor)
        if (use + hold).cores > CORES_PER_CARD:
            return _no(Reason.INSUFFICIENT_CORE, text, card.minor)
        if (use + hold).memory_units > card.memory_units:
            return _no(Reason.INSUFFICIENT_MEMORY, text, card.minor)
    return None


def _is_whole(placement: Placement, minor: int) -> bool:
    return any(not each.is_share and minor in each.minors for each in placement.containers)


def _no(reason: Reason, detail: str, minor: int | None = None) -> Refusal:
    cards = () if minor is None else (CardRefusal(minor=minor, reason=reason),)
    return Refusal(reason=reason, cards=cards, detail=detail)
