"""The cards of a node that doesn't describe them: those that the original manages."""

from collections.abc import Mapping
from typing import Any, Final

from gpustack.model.node import Card
from gpustack.model.units import CORES_PER_CARD, MEMORY_UNIT_BYTES, MOST_CARDS
from gpustack.wire.annotations import BadAnnotation
from gpustack.wire.keys import Keys
from gpustack.wire.kube.quantities import parse_quantity

MOST_CARD_BYTES: Final = 9_007_199_254_740_991
"""Whole numbers that every reader of JSON keeps."""


def equal_cards(keys: Keys, node_json: Mapping[str, Any], model: str) -> tuple[Card, ...]:
    """Return as many equal cards as the node offers hundreds of cores.

    Raises:
        BadAnnotation: it offers more than a node can have.
    """
    field, cores = _allocatable(node_json, keys.vcuda_core)
    count = cores // CORES_PER_CARD
    if count == 0:
        return ()
    if count > MOST_CARDS:
        problem = f"{cores} hundredths are {count} cards; a node has {MOST_CARDS} at most"
        raise BadAnnotation(keys.vcuda_core, problem, field=field)
    field, memory_units = _allocatable(node_json, keys.vcuda_memory)
    memory_bytes = memory_units // count * MEMORY_UNIT_BYTES
    if memory_bytes > MOST_CARD_BYTES:
        problem = f"{memory_units} units of 256 MiB on {count} cards are more than cards can have"
        raise BadAnnotation(keys.vcuda_memory, problem, field=field)
    return tuple(
        Card(minor=minor, uuid="", model=model, memory_bytes=memory_bytes) for minor in range(count)
    )


def _allocatable(node_json: Mapping[str, Any], resource: str) -> tuple[str, int]:
    """Return where a node says what it offers of a resource, and how much; 0 where unreadable."""
    status = node_json.get("status") or {}
    for name in ("allocatable", "capacity"):
        amounts = status.get(name) or {}
        if resource in amounts:
            field = f"status.{name}[{resource}]"
            try:
                return field, max(0, parse_quantity(amounts[resource]))
            except ValueError:
                return field, 0
    return "", 0
