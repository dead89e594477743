"""The original's view of the node, for HTTP and for `display.GPUDisplay` alike."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpustack import __version__
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.web import graph
from gpustack.agent.web.usage import ContainerUse, UsageReader
from gpustack.model.node import Card, Node
from gpustack.model.units import CORES_PER_CARD, MEMORY_UNIT_BYTES

_MIB: Final = 1024 * 1024


class Display:
    """Reads cards and their use at each question.

    Args:
        inventory: the cards.
        usage: the containers that use them.
    """

    def __init__(self, inventory: CardInventory, usage: UsageReader) -> None:
        self._inventory = inventory
        self._usage = usage

    def graph(self) -> str:
        """Return the cards' tree."""
        return graph.graph(self._inventory, self._usage.read())

    def usages(self) -> Mapping[str, object]:
        """Return what the containers ask and use, by the names of the original's UsageResponse."""
        return {"usage": _pods(self._inventory.node, self._usage.read())}

    def version(self) -> str:
        """Return the agent's version."""
        return __version__


def _pods(node: Node, used: Iterable[ContainerUse]) -> dict[str, dict[str, Any]]:
    cards = {card.minor: (position, card) for position, card in enumerate(node.cards)}
    pods: dict[str, dict[str, Any]] = {}
    for each in used:
        pod = pods.setdefault(each.pod_uid, {"project": each.namespace, "stat": {}, "spec": {}})
        pod["stat"][each.container] = {"dev": _devices(each, cards)}
        pod["spec"][each.container] = {
            "gpu": each.cores / CORES_PER_CARD,
            "mem": each.memory_units * MEMORY_UNIT_BYTES / _MIB,
        }
    return pods


def _devices(use: ContainerUse, cards: Mapping[int, tuple[int, Card]]) -> list[dict[str, Any]]:
    return [
        {
            "id": cards[card.minor][1].bus,
            "card_idx": str(cards[card.minor][0]),
            "gpu": card.sm_percent,
            "mem": card.memory_bytes / _MIB,
            "pids": list(card.pids),
            "device_mem": cards[card.minor][1].memory_bytes / _MIB,
        }
        for card in use.cards
        if card.minor in cards
    ]
