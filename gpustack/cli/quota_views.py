"""The quota of namespaces, and what they use of it, for people and for programs."""

from collections.abc import Iterable, Sequence
from typing import Any

from gpustack.model.cluster import Cluster
from gpustack.model.quota import cards_text
from gpustack.model.units import CORES_PER_CARD


def as_json(cluster: Cluster, namespaces: Iterable[str]) -> list[dict[str, Any]]:
    """Return the listed ones of `namespaces`; cards as numbers with at most two decimals."""
    usage = cluster.usage()
    found = []
    for namespace in sorted(namespaces):
        limit = cluster.quota.of(namespace)
        if limit is None:
            continue
        models = [
            {
                "model": name,
                "cards": most / CORES_PER_CARD,
                "used": usage.used(namespace, name) / CORES_PER_CARD,
                "pods": [
                    {"name": pod, "cards": part / CORES_PER_CARD}
                    for _, pod, part in usage.holders(namespace, name)
                ],
            }
            for name, most in sorted(limit.cards.items())
        ]
        found.append({"namespace": namespace, "pools": list(limit.pools), "models": models})
    return found


def rows(cluster: Cluster, namespaces: Iterable[str]) -> list[Sequence[object]]:
    """Return the table, a line a model; empty where none of the namespaces is listed."""
    usage = cluster.usage()
    table: list[Sequence[object]] = []
    for namespace in sorted(namespaces):
        limit = cluster.quota.of(namespace)
        if limit is None:
            continue
        pools = ",".join(limit.pools) or "all"
        table.extend(
            (
                namespace,
                name,
                cards_text(usage.used(namespace, name)),
                cards_text(most),
                pools,
                _largest(usage.holders(namespace, name)),
            )
            for name, most in sorted(limit.cards.items())
        )
        if not limit.cards:
            table.append((namespace, "none", "-", "-", pools, "-"))
    head = ("NAMESPACE", "MODEL", "CARDS-USED", "OF", "POOLS", "LARGEST")
    return [head, *table] if table else []


def _largest(holders: Sequence[tuple[str, str, int]]) -> str:
    return " ".join(f"{pod}={cards_text(part)}" for _, pod, part in holders[:3]) or "-"
