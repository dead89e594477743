"""The numbers that the agent's parts keep of themselves, as metrics."""

import functools
from collections.abc import Callable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from gpustack.adapters.kube import EventRecorder
from gpustack.agent.activity.sampler import ActivitySampler
from gpustack.agent.audit.audit import Audit
from gpustack.agent.cluster.pods import PodView
from gpustack.agent.cluster.writes import PodWrites
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.containers.recovery import Recovery
from gpustack.agent.identification.pairing_refusals import PairingRefusals
from gpustack.agent.identification.pod_identification import PodIdentification
from gpustack.agent.identification.runtime import KubeletView, RuntimeView
from gpustack.agent.kubelet.registrar import Registrar
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.violations.isolation_violations import IsolationViolations
from gpustack.agent.virtual_manager.build import VirtualManagerParts
from gpustack.agent.web.metrics import Number

_counter: Final = functools.partial(Number, CounterMetricFamily)
_gauge: Final = functools.partial(Number, GaugeMetricFamily)


def pods(
    view: PodView, writes: PodWrites, records: AllocationRecords, recovery: Recovery
) -> tuple[Number, ...]:
    """Return the numbers of this node's pods, and of the cards that they hold."""
    return (
        _gauge(
            "gpustack_pods_watched",
            "1 while the API server shows the pods of this node.",
            lambda: float(not view.problem),
        ),
        _counter(
            "gpustack_pod_writes_dropped",
            "Pod annotations that were given up.",
            lambda: writes.dropped,
        ),
        _gauge(
            "gpustack_pod_writes_pending",
            "Pods whose annotations wait to be written.",
            lambda: writes.pending,
        ),
        _gauge(
            "gpustack_pods_holding_cards",
            "Pods with a record.",
            lambda: float(len(records.all())),
        ),
        _counter(
            "gpustack_cleanup_failures",
            "Failed attempts to free the cards and folders of an ended pod.",
            lambda: recovery.failures,
        ),
        _gauge(
            "gpustack_pods_not_cleaned_up",
            "Ended pods with cards or folders that can't be freed.",
            lambda: recovery.stuck,
        ),
    )


def identification(
    finder: PodIdentification, refusals: PairingRefusals, kubelet: KubeletView, runtime: RuntimeView
) -> tuple[Number, ...]:
    """Return the numbers of the identification of the kubelet's containers."""
    return (
        _counter(
            "gpustack_identity_guesses",
            "Allocate calls whose container was inferred without the kubelet's word.",
            lambda: finder.guesses,
        ),
        _counter(
            "gpustack_identity_ambiguities",
            "Allocate calls that could have been meant for more than one pod.",
            lambda: finder.ambiguities,
        ),
        _counter(
            "gpustack_pairing_mismatches",
            "PreStartContainer calls for devices of another pod, or of one without a record.",
            lambda: refusals.mismatches,
        ),
        _counter(
            "gpustack_kubelet_failures",
            "Questions that the kubelet's PodResources socket did not answer.",
            lambda: kubelet.failures,
        ),
        _counter(
            "gpustack_runtime_failures",
            "Questions that the container runtime did not answer.",
            lambda: runtime.failures,
        ),
    )


def health(inventory: CardInventory) -> tuple[Number, ...]:
    """Return the numbers of the cards that take no new work."""
    return (
        _gauge(
            "gpustack_closed_cards",
            "Cards that take no new work, by reason.",
            lambda: inventory.states.by_reason(card.uuid for card in inventory.node.cards),
            "reason",
        ),
        _counter(
            "gpustack_card_faults",
            "How many times a card was closed to new work, by reason.",
            lambda: inventory.states.faults,
            "reason",
        ),
    )


def audited(audit: Audit) -> tuple[Number, ...]:
    """Return the numbers of the audit."""
    return (
        _gauge(
            "gpustack_audit_differences",
            "Differences, by reason, between records, kubelet, running containers, annotations,"
            " limits and ledgers, at two looks in a row.",
            lambda: audit.standing,
            "reason",
        ),
        _counter(
            "gpustack_audits",
            "Comparisons of those views, each of which could be read.",
            lambda: audit.looks,
        ),
        _counter(
            "gpustack_audit_mended",
            "Such differences that the agent put right, by reason.",
            lambda: audit.mended,
            "reason",
        ),
    )


def isolation(violations: IsolationViolations, activity: ActivitySampler) -> tuple[Number, ...]:
    """Return the numbers of containers whose use of a card escapes their limits."""
    return (
        _counter(
            "gpustack_share_violations",
            "Containers with a share that an Event was sent about, by its reason.",
            lambda: violations.containers,
            "reason",
        ),
        _gauge(
            "gpustack_unaccounted_memory_bytes",
            "Memory of containers with a share that the driver sees and no ledger explains.",
            lambda: activity.memory.total_bytes(),  # noqa: PLW0108
        ),
        _gauge(
            "gpustack_unowned_memory_bytes",
            "Memory of a card with shares that the driver shows for no process.",
            lambda: activity.memory.unowned_bytes,
            "uuid",
        ),
    )


def originals(parts: VirtualManagerParts | None) -> tuple[Number, ...]:
    """Return the numbers of the pods that were started under the original manager."""
    return (
        _gauge(
            "gpustack_original_pods",
            "Pods that were started under the original manager and have their socket.",
            lambda: 0.0 if parts is None else float(parts.manager.sockets),
        ),
        _gauge(
            "gpustack_original_folder_problems",
            "Folders of the original manager's that can't be used or removed.",
            lambda: 0.0 if parts is None else float(parts.manager.problems),
        ),
        _counter(
            "gpustack_original_dropped",
            "Connections of such pods that were closed: too slow, too many, or too large.",
            lambda: 0.0 if parts is None else float(parts.server.dropped),
        ),
    )


def connections(
    registrar: Registrar, events: EventRecorder, http_dropped: Callable[[], int]
) -> tuple[Number, ...]:
    """Return the numbers of the agent's connections: kubelet, API server, and its own HTTP."""
    return (
        _gauge(
            "gpustack_registered",
            "1 while the kubelet watches both device plugins.",
            lambda: float(registrar.ready),
        ),
        _counter(
            "gpustack_events_dropped", "Events that were not written.", lambda: events.dropped
        ),
        _counter(
            "gpustack_http_dropped",
            "Connections to this server that were closed before their answer: too slow, or too"
            " many.",
            http_dropped,
        ),
    )
