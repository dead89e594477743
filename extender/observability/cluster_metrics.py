"""What `/metrics` says of the cluster itself: nodes, fragmentation, waiting pods, quota.

Read from the cache at each scrape. A node's figures are kept until the node changes, so that a
scrape of five thousand nodes costs little more than its text. Labels are nodes with cards, the
codes of refusals, and the namespaces and models that the quota names.
"""

import collections
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from extender.cache.cache import ClusterCache
from extender.cache.pods import PodState
from extender.observability.decision_log import DecisionLog, DecisionRecord
from extender.quota.quotas import Quotas
from gpustack.model.node import Node
from gpustack.model.policies.fragmentation import (
    NOTHING_KNOWN,
    Workload,
    fragmented,
    ratio,
    workload_of,
)
from gpustack.model.refusal import Reason
from gpustack.model.units import CORES_PER_CARD, MEMORY_UNIT_BYTES

# What users tend to ask changes slowly, and to count it costs every pod.
_WORKLOAD_SECONDS: Final = 60.0
# Of a pod that the scheduler hasn't asked about, or got no answer for that is about nodes.
_UNDECIDED: Final = "Undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """Of one node's healthy cards what is free, of all cards what is used."""

    free_cores: int
    used_cores: int
    free_units: int
    used_units: int
    fragmented: int  # hundredths of a card, times the workload's weight


class ClusterCollector(Collector):
    """Collects from the cache."""

    def __init__(self, cache: ClusterCache, quotas: Quotas, decisions: DecisionLog) -> None:
        self._cache = cache
        self._quotas = quotas
        self._decisions = decisions
        self._workload = NOTHING_KNOWN
        self._counted = float("-inf")
        self._known: dict[str, tuple[Node, Workload, _Figures]] = {}

    def collect(self) -> Iterator[Metric]:
        """Yield everything as it is now."""
        yield from self._nodes()
        yield self._waiting()
        yield from self._quota()

    def _nodes(self) -> Iterator[Metric]:
        self._count_workload()
        rows = self._rows()
        for name, text, read in (
            ("gpustack_node_free_cards", "Free compute of healthy cards, in cards.",
             lambda row: row.free_cores / CORES_PER_CARD),
            ("gpustack_node_used_cards", "Compute that pods hold, in cards.",
             lambda row: row.used_cores / CORES_PER_CARD),
            ("gpustack_node_free_memory_bytes", "Free memory of healthy cards.",
             lambda row: row.free_units * MEMORY_UNIT_BYTES),
            ("gpustack_node_used_memory_bytes", "Memory that pods hold.",
             lambda row: row.used_units * MEMORY_UNIT_BYTES),
            ("gpustack_node_fragmented_cards",
             "Of the free compute what the pods that are asked for here can't use, in cards.",
             lambda row: ratio(row.fragmented, self._workload)),
        ):  # fmt: skip
            family = GaugeMetricFamily(name, text, labels=("node",))
            for node, row in rows:
                family.add_metric((node,), read(row))
            yield family
        yield GaugeMetricFamily(
            "gpustack_fragmentation_ratio",
            "Part of the cluster's free compute that the pods that are asked for can't use.",
            value=self._fragmented(rows),
        )

    def fragmented(self) -> float:
        """Return the part of the free compute that the pods that are asked for can't use."""
        self._count_workload()
        return self._fragmented(self._rows())

    def _fragmented(self, rows: Sequence[tuple[str, _Figures]]) -> float:
        free = sum(row.free_cores for _, row in rows) / CORES_PER_CARD
        lost = ratio(sum(row.fragmented for _, row in rows), self._workload)
        return lost / free if free else 0.0

    def _count_workload(self) -> None:
        now = time.monotonic()
        if now - self._counted < _WORKLOAD_SECONDS:
            return
        self._counted = now
        requests = (pod.request for pod in self._cache.pods)
        self._workload = workload_of((request, 1) for request in requests if request is not None)

    def _rows(self) -> list[tuple[str, _Figures]]:
        """Return the nodes with cards, by name."""
        self._known = {node.name: self._row(node) for node in self._cache.card_nodes}
        return [(name, figures) for name, (_, _, figures) in self._known.items()]

    def _row(self, node: Node) -> tuple[Node, Workload, _Figures]:
        before = self._known.get(node.name)
        if before is not None and before[0] is node and before[1] is self._workload:
            return before
        return node, self._workload, _figures(node, self._workload)

    def _waiting(self) -> Metric:
        """Count the pods without cards by why they have none; every reason is there, also at 0."""
        pods = self._cache.waiting
        refusals = self._decisions.refusals(pod.uid for pod in pods)
        counts = collections.Counter(_why(pod, refusals.get(pod.uid)) for pod in pods)
        family = GaugeMetricFamily(
            "gpustack_extender_waiting_pods",
            "Pods that ask for GPUs and have none, by why the last answer about them was no.",
            labels=("reason",),
        )
        for reason in (_UNDECIDED, *Reason):
            family.add_metric((reason,), counts[reason])
        return family

    def _quota(self) -> Iterator[Metric]:
        labels = ("namespace", "model")
        limits = GaugeMetricFamily("gpustack_quota_limit_cards", "Cards allowed.", labels=labels)
        used = GaugeMetricFamily("gpustack_quota_used_cards", "Cards held.", labels=labels)
        for namespace, quota in self._cache.quota.namespaces.items():
            usage = self._cache.usage_of(namespace)
            for model, limit in quota.cards.items():
                limits.add_metric((namespace, model), limit / CORES_PER_CARD)
                used.add_metric((namespace, model), usage.used(namespace, model) / CORES_PER_CARD)
        yield limits
        yield used
        yield GaugeMetricFamily(
            "gpustack_quota_config_valid",
            "1 while the quota's ConfigMap can be used, or is not there.",
            value=0.0 if self._quotas.problem else 1.0,
        )


def _why(pod: PodState, refused: DecisionRecord | None) -> str:
    if pod.gated:
        return Reason.SCHEDULING_GATED
    if pod.problem is not None:
        return Reason.BAD_REQUEST
    return _UNDECIDED if refused is None else refused.outcome


def _figures(node: Node, workload: Workload) -> _Figures:
    free_cores, free_units = node.free_totals
    return _Figures(
        free_cores=free_cores,
        used_cores=sum(use.cores for use in node.uses),
        free_units=free_units,
        used_units=sum(use.memory_units for use in node.uses),
        fragmented=fragmented(node, workload),
    )
