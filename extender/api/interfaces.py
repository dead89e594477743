"""What the paths are answered from: an extender of a cluster, or one of a file."""

from collections.abc import Callable
from typing import Protocol

from extender.cache.cache import ClusterCache
from extender.cache.snapshot import Snapshotter
from extender.observability.decision_log import DecisionLog
from extender.observability.metrics import Metrics
from extender.observability.outcome_recorder import OutcomeRecorder
from extender.quota.quotas import Quotas
from extender.verbs.deadline import Deadline
from extender.verbs.outcome import Outcome
from gpustack.wire.extender_v1 import BindingArgs, FilterArgs, PreemptionArgs


class ExtenderService(Protocol):
    """Everything that a request may need."""

    @property
    def view(self) -> ClusterCache:
        """The cluster."""

    @property
    def metrics(self) -> Metrics:
        """What `/metrics` shows."""

    @property
    def quotas(self) -> Quotas:
        """Whether the quota can be used."""

    @property
    def decisions(self) -> DecisionLog:
        """The last decisions."""

    @property
    def camera(self) -> Snapshotter:
        """What pictures of the cluster are taken with."""

    @property
    def recorder(self) -> OutcomeRecorder:
        """What records outcomes."""

    def deadline(self, disconnected: Callable[[], bool]) -> Deadline:
        """Return the deadline of a call that begins now."""

    @property
    def unready(self) -> str:
        """Why no decision can be made; empty when it can."""

    @property
    def filter(self) -> Callable[[FilterArgs, Deadline], Outcome]:
        """The verb filter."""

    @property
    def prioritize(self) -> Callable[[FilterArgs, Deadline], Outcome]:
        """The verb prioritize."""

    @property
    def predicates(self) -> Callable[[FilterArgs, Deadline], Outcome]:
        """The verb predicates."""

    @property
    def bind(self) -> Callable[[BindingArgs, Deadline], Outcome]:
        """The verb bind."""

    @property
    def preempt(self) -> Callable[[PreemptionArgs, Deadline], Outcome]:
        """The verb preempt."""

    def start(self) -> None:
        """Begin whatever runs beside the requests."""

    def stop(self) -> None:
        """End it."""
