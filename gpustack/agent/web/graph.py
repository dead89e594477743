"""The original's `/graph`: the cards' tree with what is taken of each, and what runs on it."""

import functools
import operator
from collections.abc import Iterable

from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.web.usage import ContainerUse
from gpustack.model import topology_text, topology_tree
from gpustack.model.node import Card
from gpustack.model.use import IDLE, Use


def graph(inventory: CardInventory, used: Iterable[ContainerUse]) -> str:
    """Return the text; the paths are NVML's own, so the groups are the original's."""
    containers = tuple(used)
    cards = inventory.node.cards
    node = inventory.node.with_uses(tuple(_taken(card, containers) for card in cards))
    activity = {card.minor: _activity(card, containers) for card in cards}
    return topology_text.graph(node, topology_tree.of(node), activity)


def _taken(card: Card, containers: Iterable[ContainerUse]) -> Use:
    parts = [
        card.whole
        if len(each.cards) * card.whole.cores == each.cores
        else Use(cores=each.cores, memory_units=each.memory_units)
        for each in containers
        if any(use.minor == card.minor for use in each.cards)
    ]
    return functools.reduce(operator.add, parts, IDLE)


def _activity(card: Card, containers: Iterable[ContainerUse]) -> topology_text.CardLoad:
    here = [use for each in containers for use in each.cards if use.minor == card.minor]
    return topology_text.CardLoad(
        pids=tuple(sorted({pid for use in here for pid in use.pids})),
        used_bytes=sum(use.memory_bytes for use in here),
    )
