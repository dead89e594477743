"""Metrics of cards by NVML, of shares by their ledgers and limits, and of the kubelet's calls.

A figure that a card or its driver doesn't give is left out.
"""

import itertools
import platform
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from gpustack import __version__
from gpustack.adapters.nvml import CardFigures, Nvml, NvmlError
from gpustack.agent.activity.gpu_seconds import GpuSeconds
from gpustack.agent.activity.sampler import ActivitySampler
from gpustack.agent.containers.allocation_records import AllocationRecords, ContainerRecord
from gpustack.agent.identification.process_owners import Owner
from gpustack.agent.kubelet.call_durations import BOUNDS, CallDurations
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.web.tenant_figures import TenantFigures
from gpustack.model.node import Node
from gpustack.model.placement import minors_now
from gpustack.model.units import CORES_PER_CARD, MEMORY_UNIT_BYTES

_Family = CounterMetricFamily | GaugeMetricFamily
_CARD: Final = ("minor", "uuid")
_SHARE: Final = ("pod_name", "namespace", "node", "container_name", "minor", "uuid")

_CARD_FIGURES: Final[
    tuple[tuple[type[_Family], str, str, Callable[[CardFigures], float | None]], ...]
] = (
    (
        GaugeMetricFamily,
        "gpustack_card_busy_ratio",
        "Part of NVML's last sample period in which a kernel ran.",
        lambda each: each.busy_ratio,
    ),
    (
        GaugeMetricFamily,
        "gpustack_card_memory_busy_ratio",
        "Part of NVML's last sample period in which memory was read or written.",
        lambda each: each.memory_busy_ratio,
    ),
    (
        GaugeMetricFamily,
        "gpustack_card_memory_used_bytes",
        "Memory in use, the driver's own included.",
        lambda each: each.memory_used_bytes,
    ),
    (
        GaugeMetricFamily,
        "gpustack_card_power_watts",
        "Power that the card draws.",
        lambda each: each.power_watts,
    ),
    (
        GaugeMetricFamily,
        "gpustack_card_temperature_celsius",
        "Temperature of the GPU.",
        lambda each: each.celsius,
    ),
    (
        CounterMetricFamily,
        "gpustack_card_corrected_memory_errors",
        "ECC errors since the driver was loaded that were corrected.",
        lambda each: each.corrected_errors,
    ),
    (
        CounterMetricFamily,
        "gpustack_card_uncorrected_memory_errors",
        "ECC errors since the driver was loaded that destroyed data.",
        lambda each: each.uncorrected_errors,
    ),
)


def collectors(
    nvml: Nvml,
    inventory: CardInventory,
    records: AllocationRecords,
    activity: ActivitySampler,
    durations: CallDurations,
) -> tuple[Collector, ...]:
    """Return the collectors of all of these figures."""
    return (
        _Build(inventory),
        _Cards(nvml, inventory),
        _Xids(inventory),
        _Shares(inventory, records, activity),
        _Energy(inventory, records, activity),
        TenantFigures(inventory, GpuSeconds(records, inventory)),
        _Calls(durations),
    )


class _Build(Collector):
    """The version of the agent, and its node."""

    def __init__(self, inventory: CardInventory) -> None:
        self._inventory = inventory

    def collect(self) -> Iterator[Metric]:
        """Yield the one metric."""
        text = "Always 1; the labels are the versions of the agent and of Python, and the node."
        labels = ("version", "python", "node")
        family = GaugeMetricFamily("gpustack_build_info", text, labels=labels)
        node = self._inventory.node.name
        family.add_metric((__version__, platform.python_version(), node), 1.0)
        yield family


class _Cards(Collector):
    """What NVML says of each card."""

    def __init__(self, nvml: Nvml, inventory: CardInventory) -> None:
        self._nvml = nvml
        self._inventory = inventory

    def collect(self) -> Iterator[Metric]:
        """Ask every card."""
        families = [kind(name, text, labels=_CARD) for kind, name, text, _ in _CARD_FIGURES]
        for card in self._inventory.node.cards:
            try:
                found = self._nvml.figures(card.uuid)
            except NvmlError:
                continue  # gpustack_card_healthy says that it doesn't answer
            for family, (_, _, _, read) in zip(families, _CARD_FIGURES, strict=True):
                value = read(found)
                if value is not None:
                    family.add_metric((str(card.minor), card.uuid), value)
        yield from families


class _Xids(Collector):
    """The driver's error messages about each card."""

    def __init__(self, inventory: CardInventory) -> None:
        self._inventory = inventory

    def collect(self) -> Iterator[Metric]:
        """Yield the one metric."""
        text = "Critical XIDs that NVML has passed on since the agent's start, by NVIDIA's number."
        family = CounterMetricFamily("gpustack_card_xids", text, labels=(*_CARD, "reason"))
        minors = {card.uuid: str(card.minor) for card in self._inventory.node.cards}
        for (uuid, reason), count in sorted(self._inventory.states.xids.items()):
            family.add_metric((minors.get(uuid, ""), uuid, reason), count)
        yield family


def _held(
    records: AllocationRecords, node: Node
) -> Iterator[tuple[ContainerRecord, Owner, tuple[str, ...]]]:
    """Yield each container's every card, with the values of `_SHARE`; the UUID is the last."""
    for record in records.all():
        for each in record.containers:
            pairs = zip(minors_now(node, each.placement), each.placement.uuids, strict=True)
            for minor, uuid in pairs:
                names = (record.name, record.namespace, node.name, each.name, str(minor), uuid)
                yield each, (record.uid, each.name), names


class _Shares(Collector):
    """The limits of each share, and what its ledger says."""

    def __init__(
        self, inventory: CardInventory, records: AllocationRecords, activity: ActivitySampler
    ) -> None:
        self._inventory = inventory
        self._records = records
        self._activity = activity

    def collect(self) -> Iterator[Metric]:
        """Go through the records."""
        gauge, counter = GaugeMetricFamily, CounterMetricFamily
        cores = gauge(
            "gpustack_container_cores_limit_ratio", "Guaranteed part of a card.", labels=_SHARE
        )
        memory = gauge("gpustack_container_memory_limit_bytes", "Memory limit.", labels=_SHARE)
        used = gauge(
            "gpustack_container_memory_charged_bytes",
            "Memory that its hook has charged.",
            labels=_SHARE,
        )
        busy = counter(
            "gpustack_container_busy_seconds",
            "GPU time since the agent's start, as its hook counts.",
            labels=_SHARE,
        )
        throttled = counter(
            "gpustack_container_throttled_seconds",
            "Time since the agent's start that its launches were held back.",
            labels=_SHARE,
        )
        denied = counter(
            "gpustack_container_denied_requests",
            "Requests for memory beyond its limit since the agent's start.",
            labels=_SHARE,
        )
        node = self._inventory.node
        for container, owner, names in _held(self._records, node):
            placement = container.placement
            if placement.is_share and container.core_ids:
                own = self._activity.figures.of(owner, names[-1])
                cores.add_metric(names, placement.cores / CORES_PER_CARD)
                memory.add_metric(names, placement.memory_units * MEMORY_UNIT_BYTES)
                used.add_metric(names, own.used_bytes)
                busy.add_metric(names, own.busy_seconds)
                throttled.add_metric(names, own.throttled_seconds)
                denied.add_metric(names, own.denied)
        yield from (cores, memory, used, busy, throttled, denied)


class _Energy(Collector):
    """What cards drew, for whom and for nobody, all as of one look, so that the sums agree."""

    def __init__(
        self, inventory: CardInventory, records: AllocationRecords, activity: ActivitySampler
    ) -> None:
        self._inventory = inventory
        self._records = records
        self._activity = activity

    def collect(self) -> Iterator[Metric]:
        """Go through the records, the namespaces and the cards."""
        counted = CounterMetricFamily(
            "gpustack_card_energy_joules",
            "Energy since the driver was loaded, as far as it is divided.",
            labels=_CARD,
        )
        namespaces = CounterMetricFamily(
            "gpustack_namespace_energy_joules",
            "Energy since the agent's start that cards drew for a namespace's containers.",
            labels=("namespace", "node"),
        )
        given = CounterMetricFamily(
            "gpustack_container_energy_joules",
            "Energy since the agent's start: all of a whole card; of a shared one, what it drew"
            " while shares ran, divided by GPU time.",
            labels=_SHARE,
        )
        idle = CounterMetricFamily(
            "gpustack_card_idle_energy_joules",
            "Energy since the agent's start that a card drew for no container.",
            labels=_CARD,
        )
        node, sums = self._inventory.node, self._activity.energy.sums
        for _, owner, names in _held(self._records, node):
            joules = sums.of(owner, names[-1])
            if joules is not None:
                given.add_metric(names, joules)
        for namespace, amount in sorted(sums.namespaces.items()):
            namespaces.add_metric((namespace, node.name), amount)
        for card in node.cards:
            if card.uuid in sums.idle:
                idle.add_metric((str(card.minor), card.uuid), sums.idle[card.uuid])
                counted.add_metric((str(card.minor), card.uuid), sums.counters[card.uuid])
        yield from (counted, given, idle, namespaces)


class _Calls(Collector):
    """How long the kubelet waits."""

    def __init__(self, durations: CallDurations) -> None:
        self._durations = durations

    def collect(self) -> Iterator[Metric]:
        """Yield the histogram."""
        family = HistogramMetricFamily(
            "gpustack_kubelet_call_seconds",
            "Time from a call of the kubelet to its answer, by method and resource.",
            labels=("method", "resource"),
        )
        for (method, resource), calls in sorted(self._durations.read().items()):
            bounds = (*map(str, BOUNDS), "+Inf")
            counts = zip(bounds, map(float, itertools.accumulate(calls.counts)), strict=True)
            name = resource.rpartition("/")[2]
            family.add_metric((method, name), list(counts), sum_value=calls.seconds)
        yield family
