"""The IDs that the two resources advertise.

IDs are anonymous tokens: the kubelet picks them, and its choice is independent of the card that a
container gets. The scheduler counts their number, and the kubelet's topology manager reads their
NUMA node. Shapes are the original's (docs/reference/pods.md).
"""

import re
from collections.abc import Sequence

from gpustack.adapters.deviceplugin import Device
from gpustack.model.node import Node
from gpustack.model.units import CORES_PER_CARD, MEMORY_UNIT_BYTES
from gpustack.wire.keys import Keys

_INDEX = re.compile(r"-(\d+)$")


def core_ids(keys: Keys, node: Node) -> tuple[Device, ...]:
    """Return 100 IDs for each card: `DOMAIN/vcuda-core-<i>`."""
    return tuple(
        Device(
            id=f"{keys.vcuda_core}-{position * CORES_PER_CARD + core}",
            healthy=card.healthy,
            numa=card.numa,
        )
        for position, card in enumerate(node.cards)
        for core in range(CORES_PER_CARD)
    )


def memory_ids(keys: Keys, node: Node) -> tuple[Device, ...]:
    """Return one ID for each memory unit that a card can hold, and no others."""
    prefix = f"{keys.vcuda_memory}-{MEMORY_UNIT_BYTES}"
    cards = [card for card in node.cards for _ in range(card.memory_units)]
    return tuple(
        Device(id=f"{prefix}-{index}", healthy=card.healthy, numa=card.numa)
        for index, card in enumerate(cards)
    )


def prefer_lowest(available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
    """Choose `size` IDs: the required ones, then those with the lowest numbers.

    Taking the lowest keeps the choice the same for the same state, which makes logs readable; it
    has no effect on which card is used.
    """
    must = list(dict.fromkeys(required))
    rest = sorted(set(available) - set(must), key=_number)
    return tuple(must + rest)[: max(size, 0)]


def _number(device_id: str) -> tuple[int, str]:
    match = _INDEX.search(device_id)
    return (int(match.group(1)) if match else 0, device_id)
