"""``gpustack usage``: every card, what is free of it, and who holds the rest."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gpustack.cli import options, printing
from gpustack.cli.source import Snapshot
from gpustack.model.device import Node
from gpustack.wire.annotations import BadAnnotation, Keys
from gpustack.wire.nodes import decode_node
from gpustack.wire.pods import Holding, holding, usage


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser("usage", help="every card and who holds it")
    options.add_reading(parser)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print every card; 1 when a node could not be read, which stderr then names."""
    cards, unread = measure(Keys(chosen.domain), options.read(chosen))
    printing.show(chosen.output, rows(cards), as_json(cards))
    for problem in unread:
        print(f"gpustack: {problem}", file=sys.stderr)
    return 1 if unread else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One container's part of one card."""

    namespace: str
    pod: str
    container: str
    cores: int
    memory_units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CardUsage:
    """One card, with what is left of it and who has the rest."""

    node: str
    minor: int
    uuid: str
    model: str
    healthy: bool
    free_cores: int
    free_memory_units: int
    tenants: tuple[Tenant, ...]


def measure(keys: Keys, snapshot: Snapshot) -> tuple[list[CardUsage], list[str]]:
    """Return the cards of all nodes, by node name and minor, and what couldn't be read, by node."""
    held = [each for each in (holding(keys, pod) for pod in snapshot.pods) if each is not None]
    cards: list[CardUsage] = []
    unread: list[str] = []
    for item in sorted(snapshot.nodes, key=lambda item: str(item["metadata"]["name"])):
        try:
            node = usage(keys, decode_node(keys, item), snapshot.pods)
        except BadAnnotation as error:
            unread.append(f"node {item['metadata']['name']}: {error.message}")
        else:
            cards.extend(_cards(node, held))
    return cards, unread


def _cards(node: Node, held: Iterable[Holding]) -> Iterable[CardUsage]:
    here = [each for each in held if each.decision.node == node.name]
    for index, card in enumerate(node.cards):
        yield CardUsage(
            node=node.name,
            minor=card.minor,
            uuid=card.uuid,
            model=card.model,
            healthy=card.healthy,
            free_cores=node.free_cores(index),
            free_memory_units=node.free_memory_units(index),
            tenants=tuple(_tenants(here, card.minor)),
        )


def _tenants(here: Iterable[Holding], minor: int) -> Iterable[Tenant]:
    for each in here:
        for container in each.decision.placement.containers:
            if minor in container.minors:
                yield Tenant(
                    namespace=each.namespace,
                    pod=each.name,
                    container=container.name,
                    cores=container.cores,
                    memory_units=container.memory_units,
                )


def rows(cards: Iterable[CardUsage]) -> list[Sequence[object]]:
    """Return the table: a line a tenant, and a line for a card that nobody holds."""
    table: list[Sequence[object]] = [
        ("NODE", "CARD", "MODEL", "HEALTHY", "FREE-CORE", "FREE-MEMORY", "TENANT", "CORE", "MEMORY")
    ]
    for card in cards:
        head = (
            card.node, card.minor, card.model or "-", "yes" if card.healthy else "no",
            card.free_cores, card.free_memory_units,
        )  # fmt: skip
        table.extend(
            (*head, f"{each.namespace}/{each.pod}/{each.container}", each.cores, each.memory_units)
            for each in card.tenants
        )
        if not card.tenants:
            table.append((*head, "-", 0, 0))
    return table


def as_json(cards: Iterable[CardUsage]) -> dict[str, Any]:
    """Return the same as plain values; memory in units of 256 MiB."""
    return {"cards": [asdict(card) for card in cards]}
