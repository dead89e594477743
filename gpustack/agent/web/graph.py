"""The original's `/graph`: the cards' tree with each card's allocated part and processes."""

import functools
import operator
from collections.abc import Iterable

from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.web.usage import ContainerUse
from gpustack.model.node import Card
from gpustack.model.topology import card_tree, tree_text
from gpustack.model.use import IDLE, Use


def graph(inventory: CardInventory, used: Iterable[ContainerUse]) -> str:
    """Return the text; the paths are NVML's own, so the groups are the original's."""
    containers = tuple(used)
    cards = inventory.node.cards
    node = inventory.node.with_uses(tuple(_taken(card, containers) for card in cards))
    activity = {card.minor: _activity(card, containers) for card in cards}
    return tree_text.graph(node, card_tree.of(node), activity)


def _taken(card: Card, containers: Iterable[ContainerUse]) -> Use:
    parts = [
        card.whole
        if len(each.cards) * card.whole.cores == each.cores
        else Use(cores=each.cores, memory_units=each.memory_units)
        for each in containers
        if any(use.minor == card.minor for use in each.cards)
    ]
    return functools.reduce(operator.add, parts, IDLE)


def _activity(card: Card, containers: Iterable[ContainerUse]) -> tree_text.CardLoad:
    here = [use for each in containers for use in each.cards if use.minor == card.minor]
    return tree_text.CardLoad(
        pids=tuple(sorted({pid for use in here for pid in use.pids})),
        used_bytes=sum(use.memory_bytes for use in here),
    )
