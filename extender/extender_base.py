"""What the HTTP paths are answered from, wherever a cluster is known from.

`extender` learns of a cluster from its API server, `offline` from a file. Each of them composes the
verbs on top of this.
"""

import time
from collections.abc import Callable

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.search_time import SearchShares
from extender.cache.snapshot import Snapshotter
from extender.observability.card_utilisation import CardUtilisation
from extender.observability.cluster_metrics import ClusterCollector
from extender.observability.decision_log import DecisionLog
from extender.observability.history import History, observer, state_file
from extender.observability.metrics import Metrics
from extender.observability.outcome_recorder import OutcomeRecorder
from extender.observability.usage_metrics import UsageCollector
from extender.policy import PolicyKeeper
from extender.quota.quotas import Quotas
from extender.settings import ExtenderSettings
from extender.verbs.bind_backoff import BindBackoff
from extender.verbs.deadline import Deadline
from extender.verbs.outcome import Outcome
from gpustack.wire.extender_v1 import BindingArgs, FilterArgs, PreemptionArgs


class ExtenderBase:
    """A cluster as it is known, and the record of what was decided about it."""

    filter: Callable[[FilterArgs, Deadline], Outcome]
    prioritize: Callable[[FilterArgs, Deadline], Outcome]
    predicates: Callable[[FilterArgs, Deadline], Outcome]
    bind: Callable[[BindingArgs, Deadline], Outcome]
    preempt: Callable[[PreemptionArgs, Deadline], Outcome]
    recorder: OutcomeRecorder

    def __init__(
        self,
        settings: ExtenderSettings,
        cache: ClusterCache,
        *,
        clock: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Compose what follows from an empty cache."""
        self._decision_seconds = settings.decision_seconds
        self._clock = clock
        self._search_shares = SearchShares(clock)
        self.cache = cache
        self.evaluator = NodeEvaluator(cache)
        self.policy = PolicyKeeper(
            settings.policy, cache=cache, evaluator=self.evaluator, clock=clock
        )
        self.quotas = Quotas(cache, deny=settings.quota.deny)
        self.snapshotter = Snapshotter(cache, self.evaluator)
        self.decisions = DecisionLog(now_ns=now_ns)
        self.bind_backoff = BindBackoff(clock)
        cluster_metrics = ClusterCollector(cache, self.quotas, self.decisions)
        self.metrics = Metrics(cluster_metrics, reservations=lambda: cache.reservations)
        self.metrics.registry.register(UsageCollector(cache, now_ns))
        self.card_utilisation = CardUtilisation(clock)
        look = observer(cache, cluster_metrics.fragmented, self.card_utilisation.mean)
        self.history = History(look, path=state_file())

    @property
    def unready(self) -> str:
        """Why no decision can be made now; empty when it can."""
        return ""

    def start(self) -> None:
        """Begin what runs beside the requests."""

    def stop(self) -> None:
        """End it; safe to call when nothing was started."""

    def deadline(self, disconnected: Callable[[], bool]) -> Deadline:
        """Return the deadline of a call that begins now; ``disconnected``: its caller has gone."""
        return Deadline(self._decision_seconds, self._clock, disconnected, self._search_shares)
