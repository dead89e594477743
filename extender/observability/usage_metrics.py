"""What `/metrics` says of models, pools and namespaces: cards there are, held, and waited for.

Read from the cache at each scrape; what the pods of a node hold is kept until the node changes.
Rows are bounded: one for each model of a node's cards, and one for each namespace, model and pool
of the cards that are held. Tenants may make namespaces, so the thousand with the most have rows of
their own, and the others are summed up.
"""

import collections
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from extender.cache.cache import ClusterCache
from extender.cache.pods import PodState
from gpustack.adapters.web.exposition import MOST_NAMESPACES, OTHERS
from gpustack.model.model_name import label_safe_model
from gpustack.model.node import Node
from gpustack.model.placement import given
from gpustack.model.units import CORES_PER_CARD

_NODE: Final = ("node", "pool", "model")
_HELD: Final = ("namespace", "pool", "model")
_NS: Final = 1_000_000_000
_Holding = tuple[str, str, int]
"""A pod's UID, a card's model, and the hundredths of that card that it holds."""


class UsageCollector(Collector):
    """Collects from the cache; ``now_ns``: Unix nanoseconds."""

    def __init__(self, cache: ClusterCache, now_ns: Callable[[], int]) -> None:
        self._cache = cache
        self._now_ns = now_ns
        self._known: dict[str, tuple[Node, tuple[_Holding, ...]]] = {}

    def collect(self) -> Iterator[Metric]:
        """Yield everything as it is now."""
        nodes = self._cache.card_nodes
        yield from _cards(nodes)
        yield self._held(nodes)
        yield from self._waiting()

    def _held(self, nodes: Iterable[Node]) -> Metric:
        text = "Compute that the pods of a namespace hold or have reserved, in cards."
        family = GaugeMetricFamily("gpustack_namespace_held_cards", text, labels=_HELD)
        amounts: collections.Counter[tuple[str, str, str]] = collections.Counter()
        self._known = {node.name: self._holdings(node) for node in nodes}
        for node, holdings in self._known.values():
            for uid, model, cores in holdings:
                if pod := self._cache.pod(uid):  # otherwise it ended since
                    amounts[pod.namespace, node.pool, model] += cores
        totals: collections.Counter[str] = collections.Counter()
        for (namespace, _, _), cores in amounts.items():
            totals[namespace] += cores
        shown = _shown(totals)
        folded: collections.Counter[tuple[str, str, str]] = collections.Counter()
        for (namespace, pool, model), cores in amounts.items():
            folded[namespace if namespace in shown else OTHERS, pool, model] += cores
        for labels, cores in sorted(folded.items()):
            family.add_metric(labels, cores / CORES_PER_CARD)
        return family

    def _holdings(self, node: Node) -> tuple[Node, tuple[_Holding, ...]]:
        """Return a node, as it is now, with what each pod holds of its cards."""
        before = self._known.get(node.name)
        if before is not None and before[0] is node:
            return before
        return node, tuple(
            (uid, label_safe_model(node.cards[index].model), use.cores)
            for uid, placement in self._cache.holders(node.name).items()
            for index, use in given(node, placement).items()
        )

    def _waiting(self) -> Iterator[Metric]:
        """Count the pods without cards by namespace; those that are gated aren't ready to wait."""
        pods = [pod for pod in self._cache.waiting if not pod.gated]
        now = self._now_ns()
        counts = collections.Counter(pod.namespace for pod in pods)
        shown = _shown(counts)
        oldest: dict[str, float] = dict.fromkeys(shown, 0.0)
        waiting: collections.Counter[str] = collections.Counter()
        for pod in pods:
            namespace = pod.namespace if pod.namespace in shown else OTHERS
            waiting[namespace] += 1
            oldest[namespace] = max(oldest.get(namespace, 0.0), age_seconds(pod, now))
        yield _by_namespace(
            "gpustack_namespace_waiting_pods",
            "Pods that ask for GPUs and have none, without those that are gated.",
            waiting,
        )
        yield _by_namespace(
            "gpustack_namespace_oldest_waiting_seconds",
            "Time since the oldest of these pods was created.",
            oldest,
        )
        yield GaugeMetricFamily(
            "gpustack_extender_oldest_waiting_seconds",
            "Time since the oldest pod was created that asks for GPUs, has none and isn't gated;"
            " 0 where there is none.",
            value=max(oldest.values(), default=0.0),
        )


def age_seconds(pod: PodState, now_ns: int) -> float:
    """Return the time since a pod was created, 0 where that is unknown or later than now."""
    return max(0, now_ns - pod.created_ns) / _NS if pod.created_ns else 0.0


def _cards(nodes: Iterable[Node]) -> Iterator[Metric]:
    there = GaugeMetricFamily("gpustack_node_cards", "Cards, healthy or not.", labels=_NODE)
    healthy = GaugeMetricFamily("gpustack_node_healthy_cards", "Healthy cards.", labels=_NODE)
    for node in nodes:
        by_model = sorted((label_safe_model(card.model), card.healthy) for card in node.cards)
        for model, cards in itertools.groupby(by_model, key=lambda each: each[0]):
            states = [state for _, state in cards]
            there.add_metric((node.name, node.pool, model), len(states))
            healthy.add_metric((node.name, node.pool, model), sum(states))
    yield from (there, healthy)


def _by_namespace(name: str, text: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=("namespace",))
    for namespace, value in sorted(values.items()):
        family.add_metric((namespace,), value)
    return family


def _shown(amounts: collections.Counter[str]) -> frozenset[str]:
    """Return the namespaces that have the most; of equal ones the same ones each time."""
    ordered = sorted(amounts.items(), key=lambda each: (-each[1], each[0]))
    return frozenset(name for name, _ in ordered[:MOST_NAMESPACES])
