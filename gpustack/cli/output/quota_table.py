"""The quota of namespaces, and what is allocated of it, for people."""

from collections.abc import Iterable, Sequence
from typing import Final

from gpustack.model.cluster.cluster import Cluster
from gpustack.model.units import cards_text

_HEAD: Final = (
    "NAMESPACE", "MODEL", "ALLOCATED(cards)", "QUOTA(cards)", "POOLS", "LARGEST(cards)",
)  # fmt: skip


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
    return [_HEAD, *table] if table else []


def _largest(holders: Sequence[tuple[str, str, int]]) -> str:
    return " ".join(f"{pod}={cards_text(part)}" for _, pod, part in holders[:3]) or "-"
