"""The numbers that the agent's parts keep of themselves, as metrics."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from gpustack.adapters.kube import EventRecorder
from gpustack.agent.activity.isolation_violations import IsolationViolations
from gpustack.agent.activity.sampler import ActivitySampler
from gpustack.agent.cluster.pods import PodView
from gpustack.agent.cluster.writes import PodWrites
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.containers.recovery import Recovery
from gpustack.agent.identification.pod_identification import PodIdentification
from gpustack.agent.identification.pre_start_check import PreStartCheck
from gpustack.agent.identification.runtime import KubeletView, RuntimeView
from gpustack.agent.kubelet.registrar import Registrar
from gpustack.agent.web.metrics import Number

_MEANINGS: Final = {
    "gpustack_identity_guesses": (
        "Allocate calls whose container was inferred without the kubelet's word."
    ),
    "gpustack_identity_ambiguities": (
        "Allocate calls that could have been meant for more than one pod."
    ),
    "gpustack_pairing_mismatches": (
        "PreStartContainer calls for devices of another pod, or of one without a record."
    ),
    "gpustack_kubelet_failures": "Questions that the kubelet's PodResources socket did not answer.",
    "gpustack_runtime_failures": "Questions that the container runtime did not answer.",
    "gpustack_pod_writes_dropped": "Pod annotations that were given up.",
    "gpustack_unhooked_containers": (
        "Containers with a share and a process that used its card without the hook."
    ),
    "gpustack_cleanup_failures": "Failed attempts to free the cards and folders of an ended pod.",
    "gpustack_foreign_limits": (
        "Containers with a share and a process that didn't map its limits and ledger."
    ),
    "gpustack_damaged_ledgers": "Containers whose ledger could not be read.",
    "gpustack_events_dropped": "Events that were not written.",
    "gpustack_http_dropped": (
        "Connections to this server that were closed before their answer: too slow, or too many."
    ),
    "gpustack_pods_not_cleaned_up": "Ended pods with cards or folders that can't be freed.",
    "gpustack_pods_watched": "1 while the API server shows the pods of this node.",
    "gpustack_registered": "1 while the kubelet watches both device plugins.",
    "gpustack_pod_writes_pending": "Pods whose annotations wait to be written.",
    "gpustack_pods_holding_cards": "Pods with a record.",
    "gpustack_unaccounted_memory_bytes": (
        "Memory of containers with a share that the driver sees and no ledger explains."
    ),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredParts:
    """The agent's parts that keep numbers."""

    finder: PodIdentification
    pairing: PreStartCheck
    kubelet: KubeletView
    runtime: RuntimeView
    registrar: Registrar
    pods: PodView
    writes: PodWrites
    records: AllocationRecords
    recovery: Recovery
    escapes: IsolationViolations
    activity: ActivitySampler
    events: EventRecorder
    http_dropped: Callable[[], int]


def counters(parts: MeasuredParts) -> tuple[Number, ...]:
    """Return the counters; the output adds `_total` to their names."""
    return _numbers(
        {
            "gpustack_identity_guesses": lambda: parts.finder.guesses,
            "gpustack_identity_ambiguities": lambda: parts.finder.ambiguities,
            "gpustack_pairing_mismatches": lambda: parts.pairing.mismatches,
            "gpustack_kubelet_failures": lambda: parts.kubelet.failures,
            "gpustack_runtime_failures": lambda: parts.runtime.failures,
            "gpustack_pod_writes_dropped": lambda: parts.writes.dropped,
            "gpustack_unhooked_containers": lambda: parts.escapes.unhooked,
            "gpustack_foreign_limits": lambda: parts.escapes.foreign,
            "gpustack_damaged_ledgers": lambda: parts.escapes.damaged,
            "gpustack_cleanup_failures": lambda: parts.recovery.failures,
            "gpustack_events_dropped": lambda: parts.events.dropped,
            "gpustack_http_dropped": parts.http_dropped,
        }
    )


def gauges(parts: MeasuredParts) -> tuple[Number, ...]:
    """Return the gauges."""
    return _numbers(
        {
            "gpustack_registered": lambda: float(parts.registrar.ready),
            "gpustack_pods_watched": lambda: float(not parts.pods.problem),
            "gpustack_pod_writes_pending": lambda: parts.writes.pending,
            "gpustack_pods_holding_cards": lambda: float(len(parts.records.all())),
            "gpustack_pods_not_cleaned_up": lambda: parts.recovery.stuck,
            "gpustack_unaccounted_memory_bytes": lambda: parts.activity.unaccounted_bytes,
        }
    )


def _numbers(readers: Mapping[str, Callable[[], float]]) -> tuple[Number, ...]:
    return tuple(
        Number(name=name, documentation=_MEANINGS[name], read=read)
        for name, read in readers.items()
    )
