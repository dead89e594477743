"""``gpustack get cards``: every card, its free part and the pods that hold the rest."""

from dataclasses import asdict
from typing import Final

from gpustack.cli.get.filters import Question
from gpustack.cli.get.label_selector import selects
from gpustack.cli.output.listing import ListedItem, Listing
from gpustack.cli.output.printing import Alarm
from gpustack.cli.usage import CardUsage, measure
from gpustack.model.cluster.eligibility import NOT_READY, OPEN
from gpustack.model.node import Card
from gpustack.model.units import cards_text, gib_text

_HEAD: Final = (
    "NODE", "CARD", "MODEL", "HEALTHY", "FREE-CORE(%)", "FREE-MEMORY(GiB)", "PODS",
)  # fmt: skip
_WIDE: Final = ("UUID", "POOL", "NODE-STATE", "NUMA", "REASON", "HELD-BY")
_SHOWN: Final = 3  # pods that a cell names


def listing(question: Question) -> Listing:
    """Return the cards by node name and minor."""
    cluster, filters = question.cluster, question.filters
    kept, items = [], []
    by_name = {
        (name, card.minor): card for name, node in cluster.nodes.items() for card in node.cards
    }
    for card in measure(cluster):
        if not filters.takes_node(cluster.nodes[card.node]):
            continue
        if not filters.takes_a_model([card.model]):
            continue
        if filters.namespace and filters.namespace not in {t.namespace for t in card.tenants}:
            continue
        if selects(filters.selector, cluster.hosts.get(card.node, OPEN).labels):
            kept.append(card)
            pool = cluster.nodes[card.node].pool
            items.append(_item(card, by_name[card.node, card.minor], pool))
    sums = {
        "cards": len(kept),
        "unhealthy_cards": sum(not card.healthy for card in kept),
        "free_cores": sum(card.free_cores for card in kept if card.healthy),
        "free_memory_units": sum(card.free_memory_units for card in kept if card.healthy),
    }
    return Listing(
        kind="cards",
        head=_HEAD,
        wide_head=_WIDE,
        items=items,
        sums=sums,
        sums_rows=[
            ("CARDS", "UNHEALTHY", "FREE(cards)", "FREE-MEMORY(GiB)"),
            (
                sums["cards"],
                sums["unhealthy_cards"],
                cards_text(sums["free_cores"]),
                gib_text(sums["free_memory_units"]),
            ),
        ],
    )


def _item(usage: CardUsage, card: Card, pool: str) -> ListedItem:
    key = f"{usage.node}/{usage.minor}"
    pods = list(dict.fromkeys(f"{each.namespace}/{each.pod}" for each in usage.tenants))
    value = asdict(usage) | {
        "node_states": list(usage.node_states),
        "tenants": [asdict(each) for each in usage.tenants],
        "pool": pool,
        "numa": card.numa,
        "reason": card.reason,
        "since": card.since,
    }
    row = (
        usage.node,
        usage.minor,
        usage.model or "-",
        "yes" if usage.healthy else Alarm("no"),
        usage.free_cores,
        gib_text(usage.free_memory_units),
        len(pods),
    )
    state = ",".join(usage.node_states) or "Ready"
    more = f" and {len(pods) - _SHOWN} more" if len(pods) > _SHOWN else ""
    wide = (
        usage.uuid or "-",
        pool or "-",
        Alarm(state) if NOT_READY in usage.node_states else state,
        "-" if card.numa is None else card.numa,
        card.reason or "-",
        ",".join(pods[:_SHOWN]) + more or "-",
    )
    return ListedItem(key=key, name=usage.uuid or key, value=value, rows=[row], wide=[wide])
