"""``gpustack usage``: every card, its free part, the pods that hold the rest; and every quota.

The JSON follows the schema `usage.json` beside the other schemas.
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from gpustack.cli import clusters, options
from gpustack.cli.output import printing, quota_table
from gpustack.model.cluster import cluster as model
from gpustack.model.cluster.cluster import Cluster
from gpustack.model.cluster.eligibility import NOT_READY, OPEN, states
from gpustack.model.node import Node
from gpustack.model.placement import takes
from gpustack.model.units import gib_text
from gpustack.wire import explanations
from gpustack.wire.keys import Keys

_HEAD: Final = (
    "NODE", "NODE-STATE", "CARD", "MODEL", "HEALTHY", "FREE-CORE(%)", "FREE-MEMORY(GiB)",
    "TENANT", "CORE(%)", "MEMORY(GiB)",
)  # fmt: skip


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser("usage", help="every card and the pods that hold it")
    options.add_reading(parser)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print every card and every quota; 1 when one could not be read, which stderr names."""
    keys = Keys(chosen.domain)
    snapshot, no_quota = clusters.without_bad_quota(options.read(chosen))
    cluster = clusters.read_what_can_be(keys, snapshot)
    cards = measure(cluster)
    namespaces = cluster.quota.namespaces
    quota = quota_table.rows(cluster, namespaces)
    value = {
        "cards": as_json(cards),
        "quota": explanations.quotas(cluster.quota, cluster.usage(), namespaces),
    }
    printing.show_all(chosen.output, [rows(cards), quota] if quota else [rows(cards)], value)
    if no_quota:
        printing.tell(no_quota)
    return 1 if clusters.tell_unread(keys, snapshot) or no_quota else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CardTenant:
    """One container's part of one card: of whole cards, all compute and memory of each."""

    namespace: str
    pod: str
    container: str
    cores: int
    memory_units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CardUsage:
    """One card, with its free part and the tenants of the rest.

    `node_states` are the states that keep new pods from its node.
    """

    node: str
    node_states: tuple[str, ...]
    minor: int
    uuid: str
    model: str
    healthy: bool
    free_cores: int
    free_memory_units: int
    tenants: tuple[CardTenant, ...]


def measure(cluster: Cluster) -> list[CardUsage]:
    """Return the cards of all nodes, by node name and minor."""
    here: dict[str, list[model.Tenant]] = {}
    for tenant in cluster.tenants:
        here.setdefault(tenant.placement.node, []).append(tenant)
    return [
        card
        for name in sorted(cluster.nodes)
        for card in _cards(
            cluster.nodes[name], states(cluster.hosts.get(name, OPEN)), here.get(name, [])
        )
    ]


def _cards(
    node: Node, keeping: tuple[str, ...], here: Sequence[model.Tenant]
) -> Iterable[CardUsage]:
    for index, card in enumerate(node.cards):
        yield CardUsage(
            node=node.name,
            node_states=keeping,
            minor=card.minor,
            uuid=card.uuid,
            model=card.model,
            healthy=card.healthy,
            free_cores=node.free_cores(index),
            free_memory_units=node.free_memory_units(index),
            tenants=tuple(_tenants(node, here, index)),
        )


def _tenants(node: Node, here: Iterable[model.Tenant], index: int) -> Iterable[CardTenant]:
    for each in here:
        for container in each.placement.containers:
            use = takes(node, container).get(index)
            if use is not None:
                yield CardTenant(
                    namespace=each.namespace,
                    pod=each.name,
                    container=container.name,
                    cores=use.cores,
                    memory_units=use.memory_units,
                )


def rows(cards: Iterable[CardUsage]) -> list[Sequence[object]]:
    """Return the table: a line a tenant, and a line for a card that no pod holds."""
    table: list[Sequence[object]] = [_HEAD]
    for card in cards:
        state = ", ".join(card.node_states) or "Ready"
        head = (
            card.node, printing.Alarm(state) if NOT_READY in card.node_states else state,
            card.minor, card.model or "-", "yes" if card.healthy else printing.Alarm("no"),
            card.free_cores, gib_text(card.free_memory_units),
        )  # fmt: skip
        table.extend(
            (
                *head,
                f"{each.namespace}/{each.pod}/{each.container}",
                each.cores,
                gib_text(each.memory_units),
            )
            for each in card.tenants
        )
        if not card.tenants:
            table.append((*head, "-", 0, 0))
    return table


def as_json(cards: Iterable[CardUsage]) -> list[dict[str, Any]]:
    """Return the same as plain values; memory in units of 256 MiB."""
    return [asdict(card) for card in cards]
