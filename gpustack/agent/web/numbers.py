"""The numbers that the agent's parts keep of themselves, as metrics."""

from collections.abc import Callable

from gpustack.adapters.kube import EventRecorder
from gpustack.agent.activity.escapes import Escapes
from gpustack.agent.activity.sampler import ActivitySampler
from gpustack.agent.cluster.writes import PodWrites
from gpustack.agent.containers.finder import Finder
from gpustack.agent.containers.pairing import Pairing
from gpustack.agent.containers.records import Records
from gpustack.agent.containers.runtime import KubeletView, RuntimeView
from gpustack.agent.kubelet.registrar import Registrar
from gpustack.agent.web.metrics import Number


def _number(name: str, documentation: str, read: Callable[[], float]) -> Number:
    return Number(name=name, documentation=documentation, read=read)


def counters(
    *,
    finder: Finder,
    pairing: Pairing,
    kubelet: KubeletView,
    runtime: RuntimeView,
    writes: PodWrites,
    escapes: Escapes,
    events: EventRecorder,
) -> tuple[Number, ...]:
    """Return what only grows; `_total` is added to the names in the output."""
    return (
        _number(
            "gpustack_identity_guesses",
            "Allocate calls whose container was inferred without the kubelet's word.",
            lambda: finder.guesses,
        ),
        _number(
            "gpustack_identity_ambiguities",
            "Allocate calls that could have been meant for more than one pod.",
            lambda: finder.ambiguities,
        ),
        _number(
            "gpustack_pairing_mismatches",
            "PreStartContainer calls for devices that the kubelet gave another pod.",
            lambda: pairing.mismatches,
        ),
        _number(
            "gpustack_kubelet_failures",
            "Questions that the kubelet's PodResources socket did not answer.",
            lambda: kubelet.failures,
        ),
        _number(
            "gpustack_runtime_failures",
            "Questions that the container runtime did not answer.",
            lambda: runtime.failures,
        ),
        _number(
            "gpustack_pod_writes_dropped",
            "Pod annotations that were given up.",
            lambda: writes.dropped,
        ),
        _number(
            "gpustack_unhooked_containers",
            "Containers with a share of which a process used its card without the hook.",
            lambda: escapes.unhooked,
        ),
        _number(
            "gpustack_damaged_ledgers",
            "Containers whose ledger could not be read.",
            lambda: escapes.damaged,
        ),
        _number("gpustack_events_dropped", "Events that were not written.", lambda: events.dropped),
    )


def gauges(
    *, registrar: Registrar, writes: PodWrites, records: Records, activity: ActivitySampler
) -> tuple[Number, ...]:
    """Return what goes up and down."""
    return (
        _number(
            "gpustack_registered",
            "1 while the kubelet watches both device plugins.",
            lambda: float(registrar.ready),
        ),
        _number(
            "gpustack_pod_writes_pending",
            "Pods whose annotations wait to be written.",
            lambda: writes.pending,
        ),
        _number(
            "gpustack_pods_holding_cards",
            "Pods with a record.",
            lambda: float(len(records.all())),
        ),
        _number(
            "gpustack_unaccounted_memory_bytes",
            "Memory of containers with a share that the driver sees and no ledger explains.",
            lambda: activity.unaccounted_bytes,
        ),
    )
