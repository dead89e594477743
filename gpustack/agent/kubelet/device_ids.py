"""The IDs that the two resources advertise, and their health.

IDs are anonymous tokens: the kubelet picks them, and its choice is independent of the card that a
container gets. The scheduler counts their number, and the kubelet's topology manager reads their
NUMA node. Shapes are the original's (docs/reference/pods.md).

Their health is that of the cards of the container that has them, by its record: the kubelet shows
it in the pod's status, and once it has restarted it fails a pod of which an ID is unhealthy
(k8s.io/kubernetes pkg/kubelet/cm/devicemanager devicesToAllocate). For what is free of an unhealthy
card as many free IDs are unhealthy, so that the scheduler doesn't count on it. Where a card is left
out, containers of the others may have IDs beyond those of fewer cards, and keep them.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from gpustack.adapters.deviceplugin import Device
from gpustack.agent.containers.allocation_records import PodRecord
from gpustack.model.node import Node
from gpustack.model.placement import ContainerPlacement
from gpustack.model.units import CORES_PER_CARD, MEMORY_UNIT_BYTES
from gpustack.wire.keys import Keys

_INDEX = re.compile(r"-(\d+)$")

_Held = tuple[ContainerPlacement, tuple[str, ...]]


def core_ids(keys: Keys, node: Node, records: Iterable[PodRecord] = ()) -> tuple[Device, ...]:
    """Return 100 IDs for each card: `DOMAIN/vcuda-core-<i>`."""
    cards = [index for index, _ in enumerate(node.cards) for _ in range(CORES_PER_CARD)]
    held = [(each.placement, each.core_ids) for record in records for each in record.containers]
    return _devices(keys.vcuda_core, cards, node, held)


def memory_ids(keys: Keys, node: Node, records: Iterable[PodRecord] = ()) -> tuple[Device, ...]:
    """Return one ID for each memory unit that a card can hold, and no others."""
    cards = [index for index, card in enumerate(node.cards) for _ in range(card.memory_units)]
    held = [(each.placement, each.memory_ids) for record in records for each in record.containers]
    return _devices(f"{keys.vcuda_memory}-{MEMORY_UNIT_BYTES}", cards, node, held)


def _devices(
    prefix: str, cards: Sequence[int], node: Node, held: Sequence[_Held]
) -> tuple[Device, ...]:
    """Return an ID for each entry of `cards`, the position of the card behind it."""
    ids = [f"{prefix}-{index}" for index in range(len(cards))]
    well = _positions(node, held)
    others = (each for each in well.keys() - {*ids} if each.startswith(f"{prefix}-"))
    beyond = {each: well[each] for each in sorted(others, key=_number)}
    unhealthy = {*_unhealthy(ids, cards, node, held)}
    if beyond:
        taken = {each for _, own in held for each in own}
        spare = [each for each in reversed(ids) if each not in unhealthy and each not in well]
        unhealthy.update(sorted(spare, key=taken.__contains__)[: len(beyond)])  # free ones first
    numbered = (*zip(ids, cards, strict=True), *beyond.items())
    return tuple(
        Device(id=each, healthy=each not in unhealthy, numa=node.cards[card].numa)
        for each, card in numbered
    )


def _positions(node: Node, held: Sequence[_Held]) -> dict[str, int]:
    """Return the IDs of the containers whose cards are here, with the position of the card."""
    return {
        each: card
        for placement, own in held
        for card, part in _parts(node, placement, own)
        if card is not None
        for each in part
    }


def _unhealthy(
    ids: Sequence[str], cards: Sequence[int], node: Node, held: Sequence[_Held]
) -> Collection[str]:
    lost = [index for index, card in enumerate(node.cards) if not card.healthy]
    if not lost:
        return ()
    by_card: dict[int | None, set[str]] = {index: set() for index in lost}
    well: set[str] = set()
    for placement, own in held:
        for card, part in _parts(node, placement, own):
            by_card.get(card, well).update(part)
    taken = well.union(*by_card.values())
    free = [number for number, each in enumerate(ids) if each not in taken]
    unhealthy: set[str] = set()
    for index in lost:
        # The kubelet may give an ID to two containers; the one with a healthy card stays healthy.
        tenants = by_card[index] - well - unhealthy
        # Its own IDs first, for their NUMA node; then the highest, as the lowest are preferred.
        first = [number for number in reversed(free) if cards[number] == index]
        others = [number for number in reversed(free) if cards[number] != index]
        chosen = (first + others)[: max(0, cards.count(index) - len(tenants))]
        unhealthy.update(tenants, (ids[number] for number in chosen))
        free = sorted({*free}.difference(chosen))
    return unhealthy


def _parts(
    node: Node, placement: ContainerPlacement, ids: tuple[str, ...]
) -> Iterator[tuple[int | None, tuple[str, ...]]]:
    """Yield each card's position with its part of a container's IDs, as many for each."""
    positions = {card.uuid: index for index, card in enumerate(node.cards)}
    count = len(placement.minors)
    for index, (minor, uuid) in enumerate(zip(placement.minors, placement.uuids, strict=True)):
        part = ids[index * len(ids) // count : (index + 1) * len(ids) // count]
        yield positions.get(uuid, node.index_of(minor)), part


def prefer_lowest(available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
    """Choose `size` IDs: the required ones, then those with the lowest numbers.

    Taking the lowest keeps the choice the same for the same state, which makes logs readable; it
    has no effect on which card is used.
    """
    chosen = dict.fromkeys(required)
    # Of one resource the shorter ID has the lower number. The kubelet offers all that is free, in
    # any order, 12 288 on a large node: what is longer than the chosen ones needs no sorting.
    by_length: dict[int, list[str]] = {}
    for each in available:
        by_length.setdefault(len(each), []).append(each)
    for length in sorted(by_length):
        if len(chosen) >= size:
            break
        chosen.update(dict.fromkeys(sorted(by_length[length])))
    return tuple(chosen)[: max(size, 0)]


def _number(device_id: str) -> tuple[int, str]:
    match = _INDEX.search(device_id)
    return (int(match.group(1)) if match else 0, device_id)
