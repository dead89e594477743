"""What a placed pod takes of its node's cards, and giving it back.

Containers and restartable init containers run together, so what they hold adds up. An ordinary
init container is over before the containers start: it runs beside the restartable ones that stand
before it, and the pod needs the larger of both moments on each card (the rule by which Kubernetes
computes a pod's resources, applied card by card).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from gpustack.model.lru import LRUCache
from gpustack.model.node import Card, Node
from gpustack.model.refusal import Refusal
from gpustack.model.request import ContainerKind, ContainerRequest, PodRequest
from gpustack.model.search.budget import Gap
from gpustack.model.units import CORES_PER_CARD
from gpustack.model.use import IDLE, Use

_Find = Callable[[int, str], tuple[int, ...]]
"""Finds the positions of the cards that have a UUID and a minor: the one with the UUID first."""

# By the identity of a node's cards, which an entry keeps alive: a node of 256 cards may hold
# thousands of pods, and each would look at all of them.
_FINDERS: Final[LRUCache[int, tuple[tuple[Card, ...], _Find]]] = LRUCache(32 << 20)
_FINDER_BYTES: Final = 1024
_CARD_BYTES: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlacement:
    """The cards of one container, whose other fields are those of its `ContainerRequest`.

    Attributes:
        minors: ascending.
        uuids: in the order of `minors`; empty strings where they are unknown.
    """

    name: str
    kind: ContainerKind = ContainerKind.APP
    index: int
    minors: tuple[int, ...]
    uuids: tuple[str, ...]
    cores: int
    memory_units: int

    @property
    def is_share(self) -> bool:
        """True for a part of one card, False for whole cards."""
        return self.cores < CORES_PER_CARD


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Which node and which cards a pod gets, container by container, in the request's order.

    Attributes:
        node: its name.
        containers: the cards of each.
        gap: None where the cards are proven the best ones; else how much better those of the first
            container in doubt could be. Two placements that differ in it alone are equal.
    """

    node: str
    containers: tuple[ContainerPlacement, ...]
    gap: Gap | None = field(default=None, compare=False)


Placer = Callable[[Node, PodRequest], Placement | Refusal]
"""One node's answer to a pod, as `place.place` gives it."""


def placed(node: Node, request: ContainerRequest, indexes: Iterable[int]) -> ContainerPlacement:
    """Return the placement of a container on the cards at these positions of `node.cards`."""
    cards = [node.cards[index] for index in sorted(indexes)]
    return ContainerPlacement(
        name=request.name,
        kind=request.kind,
        index=request.index,
        minors=tuple(card.minor for card in cards),
        uuids=tuple(card.uuid for card in cards),
        cores=request.cores,
        memory_units=request.memory_units,
    )


def holds(node: Node, placement: Placement) -> Mapping[int, Use]:
    """Return what a pod takes of each card, by position in `node.cards`.

    A card is known by its UUID first: after a reboot the same card may have another minor. The
    card that has its minor now is taken too: a container that still runs reaches that one, at
    /dev/nvidia<minor>. A card that the node no longer has holds nothing.
    """
    return _peak(node, placement, _finder(node))


def given(node: Node, placement: Placement) -> Mapping[int, Use]:
    """Return what a pod was given of each card, by position in `node.cards`.

    Like `holds`, but a card that got another minor counts once: a quota's tenant didn't ask for
    the one at its old minor.
    """
    find = _finder(node)
    return _peak(node, placement, lambda minor, uuid: find(minor, uuid)[:1])


def _peak(node: Node, placement: Placement, find: _Find) -> Mapping[int, Use]:
    """Return the largest take of each card.

    Each container is looked at once: a pod may have 64, and a node hundreds of such pods. On a card
    that an ordinary init container doesn't take, its moment needs no more than the sidecars do.
    """
    apps: dict[int, Use] = {}
    sidecars: dict[int, Use] = {}
    peak: dict[int, Use] = {}
    for container in sorted(placement.containers, key=lambda each: each.index):
        take = _takes(node, container, find)
        if container.kind is ContainerKind.INIT:
            for index, use in take.items():
                peak[index] = peak.get(index, IDLE) | (sidecars.get(index, IDLE) + use)
        else:
            _add(sidecars if container.kind is ContainerKind.SIDECAR else apps, take)
    _add(apps, sidecars)
    for index, use in apps.items():
        peak[index] = peak.get(index, IDLE) | use
    return peak


_Container = TypeVar("_Container", bound=ContainerRequest | ContainerPlacement)


def sidecars_before(containers: Iterable[_Container], index: int) -> list[_Container]:
    """Return the restartable init containers that run while init container `index` does."""
    return [
        container
        for container in containers
        if container.kind is ContainerKind.SIDECAR and container.index < index
    ]


def apply(node: Node, *placements: Placement) -> Node:
    """Return the node after these pods took its cards. Over-commit is counted, never dropped."""
    uses = list(node.uses)
    for placement in placements:
        for index, use in holds(node, placement).items():
            uses[index] = uses[index] + use
    return node.with_uses(tuple(uses))


def release(node: Node, placement: Placement) -> Node:
    """Return the node after the pod gave its cards back: the exact inverse of `apply`.

    Raises:
        ValueError: the placement was never applied to this node.
    """
    uses = list(node.uses)
    for index, use in holds(node, placement).items():
        left = uses[index] - use
        if left.cores < 0 or left.memory_units < 0:
            minor = node.cards[index].minor
            raise ValueError(f"card {minor} of {node.name} holds less than is given back")
        uses[index] = left
    return node.with_uses(tuple(uses))


def lost(node: Node, placement: Placement) -> tuple[int, ...]:
    """Return the minors of a placement that are no cards of the node, ascending."""
    models = models_of(node, placement)
    return tuple(sorted({minor for (minor, _), model in models.items() if model is None}))


def models_of(node: Node, placement: Placement) -> dict[tuple[int, str], str | None]:
    """Return the model of each card of a placement, by minor and UUID; None of a lost card."""
    find = _finder(node)
    found: dict[tuple[int, str], str | None] = {}
    for each in placement.containers:
        for card in zip(each.minors, each.uuids, strict=True):
            found[card] = next((node.cards[index].model for index in find(*card)), None)
    return found


def minors_now(node: Node, container: ContainerPlacement) -> tuple[int, ...]:
    """Return the present minors of a container's cards; that of before where a card is gone."""
    now = {card.uuid: card.minor for card in node.cards if card.uuid}
    pairs = zip(container.minors, container.uuids, strict=True)
    return tuple(now.get(uuid, minor) for minor, uuid in pairs)


def take_of(node: Node, container: ContainerPlacement, index: int) -> Use:
    """Return what one container takes of the card at `index`."""
    if not container.is_share:
        return node.cards[index].whole
    return Use(cores=container.cores, memory_units=container.memory_units)


def takes(node: Node, container: ContainerPlacement) -> dict[int, Use]:
    """Return what one container takes of each of its cards, by position in `node.cards`."""
    return _takes(node, container, _finder(node))


def _takes(node: Node, container: ContainerPlacement, find: _Find) -> dict[int, Use]:
    cards = zip(container.minors, container.uuids, strict=True)
    return {index: take_of(node, container, index) for card in cards for index in find(*card)}


def _finder(node: Node) -> _Find:
    """Return what finds the node's cards, made once for all nodes that share them."""
    cards = node.cards
    known = _FINDERS.get(id(cards))
    if known is not None and known[0] is cards:
        return known[1]
    by_minor = {card.minor: index for index, card in enumerate(cards)}
    by_uuid = {card.uuid: index for index, card in enumerate(cards) if card.uuid}

    def find(minor: int, uuid: str) -> tuple[int, ...]:
        named, numbered = by_uuid.get(uuid), by_minor.get(minor)
        if named is None or numbered is None or named == numbered:
            index = numbered if named is None else named
            return () if index is None else (index,)
        return named, numbered

    _FINDERS.put(id(cards), (cards, find), _FINDER_BYTES + _CARD_BYTES * len(cards))
    return find


def _add(total: dict[int, Use], more: Mapping[int, Use]) -> None:
    for index, use in more.items():
        total[index] = total.get(index, IDLE) + use


def inherited_minors(
    container: ContainerRequest | ContainerPlacement, others: Iterable[ContainerPlacement]
) -> tuple[int, ...] | None:
    """Return the cards that an ordinary init container has without a written decision.

    Containers that start after it will hold them. A share takes the lowest card on which they hold
    enough; n whole cards are the lowest n of the first container that has so many. None where they
    hold too little.
    """
    after = sorted(
        (each for each in others if _starts_after(each, container.index)),
        key=lambda each: (each.kind.value, each.index),
    )
    if container.is_share:
        return _inherited_share(container, after)
    count = container.cores // CORES_PER_CARD
    for each in after:
        if not each.is_share and len(each.minors) >= count:
            return each.minors[:count]
    return None


def _starts_after(other: ContainerPlacement, index: int) -> bool:
    if other.kind is ContainerKind.SIDECAR:
        return other.index > index
    return other.kind is ContainerKind.APP


def _inherited_share(
    container: ContainerRequest | ContainerPlacement, after: list[ContainerPlacement]
) -> tuple[int, ...] | None:
    totals: dict[int, Use] = {}
    for each in after:
        for minor in each.minors:
            # A whole card's memory is all there, whatever the number says.
            memory = each.memory_units if each.is_share else container.memory_units
            use = Use(cores=each.cores, memory_units=memory)
            totals[minor] = totals.get(minor, IDLE) + use
    for minor in sorted(totals):
        total = totals[minor]
        if total.cores >= container.cores and total.memory_units >= container.memory_units:
            return (minor,)
    return None
