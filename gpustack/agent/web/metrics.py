"""The agent's metrics, computed at each scrape.

Four keep the original gpu-manager's names, labels and units (percent, cards, MiB), so that
dashboards written for it go on; ours carry `gpustack_` and base units.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.web.usage import ContainerUse, UsageReader
from gpustack.model.units import CORES_PER_CARD, MEMORY_UNIT_BYTES

_MIB = 1024 * 1024
_CONTAINER = ("pod_name", "namespace", "node", "container_name")
_CARD = ("minor", "uuid")


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """A number that some part of the agent keeps: its name, its help text, and how to read it.

    Attributes:
        family: a counter or a gauge; the output adds `_total` to the name of a counter.
        read: returns it, or one for each value of `label`.
    """

    family: type[CounterMetricFamily] | type[GaugeMetricFamily]
    name: str
    documentation: str
    read: Callable[[], float | Mapping[str, float]]
    label: str = ""


def registry(
    inventory: CardInventory,
    records: AllocationRecords,
    usage: UsageReader,
    *,
    numbers: Iterable[Number],
    others: Iterable[Collector] = (),
) -> CollectorRegistry:
    """Return a registry of its own, so that nothing of the process's global one leaks in."""
    own = CollectorRegistry(auto_describe=False)
    own.register(_Cards(inventory, records))
    own.register(_Containers(inventory, usage))
    own.register(_Numbers(tuple(numbers)))
    for each in others:
        own.register(each)
    return own


class _Numbers(Collector):
    def __init__(self, numbers: tuple[Number, ...]) -> None:
        self._numbers = numbers

    def collect(self) -> Iterator[Metric]:
        for each in self._numbers:
            value = each.read()
            if not isinstance(value, Mapping):
                yield each.family(each.name, each.documentation, value=value)
                continue
            family = each.family(each.name, each.documentation, labels=(each.label,))
            for name, count in value.items():
                family.add_metric((name,), count)
            yield family


class _Cards(Collector):
    def __init__(self, inventory: CardInventory, records: AllocationRecords) -> None:
        self._inventory = inventory
        self._records = records

    def collect(self) -> Iterator[Metric]:
        healthy = GaugeMetricFamily("gpustack_card_healthy", "1 while it takes work.", labels=_CARD)
        memory = GaugeMetricFamily("gpustack_card_memory_bytes", "Total memory.", labels=_CARD)
        cores = GaugeMetricFamily(
            "gpustack_card_allocated_cores_ratio", "Compute given to containers.", labels=_CARD
        )
        given = GaugeMetricFamily(
            "gpustack_card_allocated_memory_bytes", "Memory given to containers.", labels=_CARD
        )
        node = self._records.taken(self._inventory.node)
        for card, use in zip(node.cards, node.uses, strict=True):
            labels = (str(card.minor), card.uuid)
            healthy.add_metric(labels, float(card.healthy))
            memory.add_metric(labels, card.memory_bytes)
            cores.add_metric(labels, use.cores / CORES_PER_CARD)
            given.add_metric(labels, use.memory_units * MEMORY_UNIT_BYTES)
        yield from (healthy, memory, cores, given)


class _Containers(Collector):
    def __init__(self, inventory: CardInventory, usage: UsageReader) -> None:
        self._inventory = inventory
        self._usage = usage

    def collect(self) -> Iterator[Metric]:
        used = self._usage.read()
        node = self._inventory.node.name
        index = {card.minor: i for i, card in enumerate(self._inventory.node.cards)}
        busy = _family("container_gpu_utilization", "SM utilisation, percent.", "gpu")
        memory = _family("container_gpu_memory_total", "Used memory, MiB.", "gpu_memory")
        asked = _family("container_request_gpu_utilization", "Requested cards.", "req_of_gpu")
        asked_memory = _family(
            "container_request_gpu_memory", "Requested memory, MiB.", "req_of_gpu_memory"
        )
        for each in used:
            labels = (each.pod, each.namespace, node, each.container)
            for card in each.cards:
                name = f"gpu{index.get(card.minor, card.minor)}"
                busy.add_metric((*labels, name), card.sm_percent)
                memory.add_metric((*labels, name), card.memory_bytes / _MIB)
            busy.add_metric((*labels, "total"), sum(card.sm_percent for card in each.cards))
            memory.add_metric((*labels, "total"), _used_mib(each))
            asked.add_metric((*labels, "total"), each.cores / CORES_PER_CARD)
            mib = each.memory_units * MEMORY_UNIT_BYTES / _MIB
            asked_memory.add_metric((*labels, "total"), mib)
        yield from (busy, memory, asked, asked_memory)


def _family(name: str, documentation: str, label: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, labels=(*_CONTAINER, label))


def _used_mib(use: ContainerUse) -> float:
    return sum(card.memory_bytes for card in use.cards) / _MIB
