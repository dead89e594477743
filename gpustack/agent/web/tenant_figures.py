"""Metrics to charge tenants by, and the labels that join a card to its node and model."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpustack.agent.activity.gpu_seconds import GpuSeconds
from gpustack.agent.node.inventory import CardInventory
from gpustack.model.model_name import label_safe_model


class TenantFigures(Collector):
    """GPU-seconds since the agent's start, by namespace, and idle ones by card."""

    def __init__(self, inventory: CardInventory, seconds: GpuSeconds) -> None:
        self._inventory = inventory
        self._seconds = seconds

    def collect(self) -> Iterator[Metric]:
        """Count up to now, and yield the sums."""
        node = self._inventory.node
        self._seconds.look()
        held = CounterMetricFamily(
            "gpustack_namespace_gpu_seconds",
            "Cards held times seconds since the agent's start, busy or not; parts of a card count"
            " as parts.",
            labels=("namespace", "node", "model"),
        )
        for namespace, models in sorted(self._seconds.held.items()):
            for model, seconds in sorted(models.items()):
                held.add_metric((namespace, node.name, model), seconds)
        idle = CounterMetricFamily(
            "gpustack_card_idle_gpu_seconds",
            "Seconds since the agent's start times the part of the card that no pod held.",
            labels=("minor", "uuid"),
        )
        info = GaugeMetricFamily(
            "gpustack_card_info",
            "Always 1; the labels join a card to its node and model.",
            labels=("minor", "uuid", "node", "model"),
        )
        for card in node.cards:
            name = (str(card.minor), card.uuid)
            idle.add_metric(name, self._seconds.idle.get(card.uuid, 0.0))
            info.add_metric((*name, node.name, label_safe_model(card.model)), 1.0)
        yield from (held, idle, info)
