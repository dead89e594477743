"""``gpustack get nodes``: the nodes with cards, and what is allocated of them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpustack.cli.get.filters import Question
from gpustack.cli.get.label_selector import selects
from gpustack.cli.output.listing import ListedItem, Listing
from gpustack.cli.output.printing import Alarm
from gpustack.model.cluster.cluster import Tenant
from gpustack.model.cluster.eligibility import NOT_READY, OPEN, Host, states
from gpustack.model.node import Node
from gpustack.model.units import CORES_PER_CARD, cards_text, gib_text

_HEAD: Final = (
    "NODE", "STATE", "MODEL", "CARDS", "UNHEALTHY", "FREE(cards)", "WHOLE-FREE(cards)",
    "FREE-MEMORY(GiB)", "PODS",
)  # fmt: skip
_WIDE: Final = ("POOL", "DRIVER", "CUDA")
_UNREAD: Final = "Unreadable"


def listing(question: Question) -> Listing:
    """Return the nodes that have cards, or whose cards can't be read, by name."""
    cluster, filters = question.cluster, question.filters
    by_node: dict[str, list[Tenant]] = {}
    for tenant in cluster.tenants:
        by_node.setdefault(tenant.placement.node, []).append(tenant)
    items = []
    for item in question.snapshot.nodes:
        node = cluster.nodes[item["metadata"]["name"]]
        tenants = by_node.get(node.name, [])
        unread = not node.cards and question.keys.gpu_devices in (
            item["metadata"].get("annotations") or {}
        )
        if not (node.cards or unread):
            continue
        if not filters.takes_node(node) or not filters.takes_a_model(_models(node)):
            continue
        if filters.namespace and filters.namespace not in {each.namespace for each in tenants}:
            continue
        host = cluster.hosts.get(node.name, OPEN)
        if selects(filters.selector, host.labels):
            items.append(_item(node, host, len(tenants), unread=unread))
    items.sort(key=lambda each: each.key)
    sums = _sums([each.value for each in items])
    return Listing(
        kind="nodes",
        head=_HEAD,
        wide_head=_WIDE,
        items=items,
        sums=sums,
        sums_rows=_sums_rows(sums),
    )


def _models(node: Node) -> list[str]:
    return list(dict.fromkeys(card.model for card in node.cards))


def _item(node: Node, host: Host, pods: int, *, unread: bool) -> ListedItem:
    keeping = (*states(host), *((_UNREAD,) if unread else ()))
    cores, memory_units = node.free_totals
    idle = sum(node.uses[index].idle for index in node.healthy)
    unhealthy = len(node.cards) - len(node.healthy)
    value = {
        "node": node.name,
        "states": list(keeping),
        "pool": node.pool,
        "models": _models(node),
        "cards": len(node.cards),
        "unhealthy_cards": unhealthy,
        "free_cores": cores,
        "free_whole_cards": idle,
        "free_memory_units": memory_units,
        "pods": pods,
        "driver": node.driver,
        "cuda": node.cuda,
    }
    state = ",".join(keeping) or "Ready"
    row = (
        node.name,
        Alarm(state) if {NOT_READY, _UNREAD} & set(keeping) else state,
        ",".join(_models(node)) or "-",
        len(node.cards),
        Alarm(unhealthy) if unhealthy else 0,
        cards_text(cores),
        idle,
        gib_text(memory_units),
        pods,
    )
    wide = (node.pool or "-", node.driver or "-", node.cuda or "-")
    return ListedItem(key=node.name, name=node.name, value=value, rows=[row], wide=[wide])


def _sums(values: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    found = list(values)
    fields = (
        "cards", "unhealthy_cards", "free_cores", "free_whole_cards", "free_memory_units", "pods",
    )  # fmt: skip
    return {"nodes": len(found)} | {name: sum(each[name] for each in found) for name in fields}


def _sums_rows(sums: Mapping[str, int]) -> list[tuple[object, ...]]:
    used = sums["cards"] * CORES_PER_CARD
    part = f"{100 * sums['free_cores'] / used:.0f}" if used else "-"
    return [
        ("NODES", "CARDS", "UNHEALTHY", "FREE(cards)", "FREE(%)", "FREE-MEMORY(GiB)"),
        (
            sums["nodes"],
            sums["cards"],
            sums["unhealthy_cards"],
            cards_text(sums["free_cores"]),
            part,
            gib_text(sums["free_memory_units"]),
        ),
    ]
