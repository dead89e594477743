"""Composition: one extender from its settings, without the HTTP server around it."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from extender.apiserver.writer import PodWriter
from extender.cache.cache import ClusterCache
from extender.cache.consistent_read import ConsistentRead
from extender.cache.decode import Decoder, NodeState
from extender.cache.node_attributes import NodeAttributes
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.pod_disruption_budgets import PodDisruptionBudgets, read_budget
from extender.cache.pods import PodState
from extender.cache.policy import PolicyKeeper
from extender.cache.snapshot import Snapshotter
from extender.observability.cluster_metrics import ClusterCollector
from extender.observability.decision_log import DecisionLog
from extender.observability.event_messages import EventMessages
from extender.observability.ignored_keys import IgnoredKeys
from extender.observability.metrics import Metrics
from extender.observability.outcome_recorder import OutcomeRecorder
from extender.quota.quota_watch import QuotaWatch
from extender.quota.quotas import Quotas
from extender.requeue.requeue import Requeue
from extender.settings import ExtenderSettings
from extender.verbs.bind import Bind
from extender.verbs.filter import Filter
from extender.verbs.pod_lookup import PodLookup
from extender.verbs.predicates import Predicates
from extender.verbs.preempt import Preempt
from extender.verbs.prioritize import Prioritize
from extender.verbs.reserve import Reserver
from gpustack.adapters import kube
from gpustack.wire.annotations import Keys


class Extender:
    """Everything that lives as long as the process."""

    def __init__(
        self,
        settings: ExtenderSettings,
        *,
        client: kube.KubeClient | None = None,
        clock: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Compose the parts; nothing runs and nothing is asked until ``start``.

        Args:
            settings: what the operator decided.
            client: the API server; None for the one that the settings' kubeconfig names.
            clock: monotonic seconds.
            now_ns: Unix nanoseconds.

        Raises:
            KubeConfigError: the kubeconfig can't be used.
        """
        client = client or kube.KubeClient.from_kubeconfig(settings.kubeconfig)
        self._clock = clock
        self._now_ns = now_ns
        keys = Keys(settings.domain)
        reading = Decoder(keys, settings.labels)
        self.metrics = Metrics()
        self._writer = PodWriter(client, keys, reading)
        recorder = functools.partial(
            kube.EventRecorder,
            client,
            component="gpustack-extender",
            on_drop=self.metrics.drop_event,
            clock=clock,
        )
        self._events = recorder()
        self._ignored_keys = IgnoredKeys(self._events)
        self._quota_events = recorder()  # behind no pods' Events, and not dropped with them
        self._stale_seconds = settings.stale_seconds
        self._compose_state(settings)
        self._compose_watches(client, reading, settings)
        self._compose_verbs(keys, settings.decision_seconds)
        self._observe()

    def _compose_state(self, settings: ExtenderSettings) -> None:
        """Compose what is known and what follows from it."""
        clock, now_ns = self._clock, self._now_ns
        self.view = ClusterCache(
            reservation_seconds=settings.reservation_seconds,
            on_room=self._room,
            now_ns=now_ns,
            clock=clock,
        )
        self.answers = NodeEvaluator(self.view)
        self._hosts = NodeAttributes()
        self.camera = Snapshotter(self.view, self.answers, self._hosts)
        self.decisions = DecisionLog(now_ns=now_ns, clock=clock)
        policy = PolicyKeeper(settings.policy, view=self.view, answers=self.answers, clock=clock)
        self.quotas = Quotas(self.view, deny=settings.quota.deny)
        self.retry = Requeue(
            writer=self._writer,
            view=self.view,
            answers=self.answers,
            on_tick=policy.renew,
            refuses_all=lambda: self.quotas.refuses,
            now_ns=now_ns,
            clock=clock,
        )
        self.budgets = PodDisruptionBudgets()

    def _compose_watches(
        self, client: kube.KubeClient, reading: Decoder, settings: ExtenderSettings
    ) -> None:
        """Compose what reads the API server."""
        clock, idle_seconds = self._clock, settings.watch_idle_seconds
        self._quota_watch = QuotaWatch(
            client,
            settings.quota,
            quotas=self.quotas,
            events=self._quota_events,
            idle_seconds=idle_seconds,
            clock=clock,
        )
        self._refresh = ConsistentRead(client, reading, self.view, clock=clock)
        self._nodes, self._pods = self._watchers(client, reading, idle_seconds)
        self._budget_watch = kube.Watcher(
            client,
            "/apis/policy/v1/poddisruptionbudgets",
            decode=read_budget,
            on_sync=self.budgets.sync,
            on_event=self.budgets.event,
            idle_seconds=idle_seconds,
            clock=clock,
        )

    def _compose_verbs(self, keys: Keys, decision_seconds: float) -> None:
        asked = PodLookup(self.view, self._writer, self.quotas, now_ns=self._now_ns)
        chooser = Reserver(self.view, self.answers, self.retry)
        telling = OutcomeRecorder(
            events=self._events,
            count=self.metrics.count,
            decisions=self.decisions,
            wording=EventMessages(self.camera, self.answers, clock=self._clock),
        )
        self.predicates = Predicates(
            view=self.view,
            asked=asked,
            chooser=chooser,
            refresh=self._refresh,
            writer=self._writer,
            telling=telling,
            decision_seconds=decision_seconds,
            clock=self._clock,
        )
        self.bind = Bind(
            view=self.view,
            answers=self.answers,
            asked=asked,
            chooser=chooser,
            refresh=self._refresh,
            writer=self._writer,
            keys=keys,
            telling=telling,
            decision_seconds=decision_seconds,
            clock=self._clock,
        )
        self._compose_questions(asked, telling, decision_seconds)

    def _compose_questions(
        self, asked: PodLookup, telling: OutcomeRecorder, decision_seconds: float
    ) -> None:
        """Compose the verbs that reserve nothing."""
        self.filter = Filter(
            view=self.view,
            answers=self.answers,
            asked=asked,
            retry=self.retry,
            telling=telling,
            decision_seconds=decision_seconds,
        )
        self.prioritize = Prioritize(
            view=self.view,
            answers=self.answers,
            asked=asked,
            decision_seconds=decision_seconds,
        )
        self.preempt = Preempt(
            view=self.view,
            answers=self.answers,
            asked=asked,
            budgets=self.budgets,
            telling=telling,
            decision_seconds=decision_seconds,
        )

    def _observe(self) -> None:
        self.metrics.observe(
            watch_age_seconds={
                name: functools.partial(getattr, watcher, "age_seconds")
                for name, watcher in self._watched.items()
            },
            reservations=lambda: self.view.reservations,
            cluster=ClusterCollector(self.view, self.quotas, self.decisions),
        )

    @property
    def _watched(self) -> Mapping[str, kube.Watcher[Any]]:
        """What decisions rest on."""
        return {"nodes": self._nodes, "pods": self._pods, "quota": self._quota_watch.watcher}

    def _watchers(
        self, client: kube.KubeClient, reading: Decoder, idle_seconds: float
    ) -> tuple[kube.Watcher[NodeState], kube.Watcher[PodState]]:
        nodes = kube.Watcher(
            client,
            "/api/v1/nodes",
            decode=reading.node,
            on_sync=self._sync_nodes,
            on_event=self._node_event,
            on_progress=self._refresh.nodes_shown,
            idle_seconds=idle_seconds,
            clock=self._clock,
        )
        pods = kube.Watcher(
            client,
            "/api/v1/pods",
            decode=reading.pod,
            on_sync=self._sync_pods,
            on_event=self._pod_event,
            on_progress=self._refresh.shown,
            idle_seconds=idle_seconds,
            clock=self._clock,
        )
        return nodes, pods

    def _sync_nodes(self, nodes: Sequence[NodeState]) -> None:
        self._hosts.sync(nodes)
        self.view.sync_nodes(nodes)

    def _node_event(self, kind: str, state: NodeState) -> None:
        self._hosts.event(kind, state)
        self.view.node_event(kind, state)

    def _sync_pods(self, pods: Sequence[PodState]) -> None:
        self.view.sync_pods(pods, int(self._pods.version))
        self.retry.inherit(pods)
        self._ignored_keys.sync(pods)

    def _pod_event(self, kind: str, pod: PodState) -> None:
        self.view.pod_event(kind, pod)
        self._ignored_keys.event(kind, pod)

    @property
    def unready(self) -> str:
        """Why no decision can be made yet, or any more; empty when it can."""
        watched = self._watched
        missing = [name for name, each in watched.items() if not each.synced.is_set()]
        if missing:
            text = f"the first list of {' and '.join(missing)} is still missing"
            return self._because(text, missing)
        stale = [name for name, each in watched.items() if each.age_seconds > self._stale_seconds]
        if stale:
            silence = f"{' and '.join(stale)} for {self._stale_seconds:g} s"
            return self._because(f"the API server has said nothing of {silence}", stale)
        return ""

    def _because(self, text: str, names: Sequence[str]) -> str:
        """Add what kept these watches from it, as far as anybody said so."""
        problem = next(filter(None, (self._watched[name].problem for name in names)), "")
        return f"{text}: {problem}" if problem else text

    def start(self) -> None:
        """Begin to watch and to write."""
        self._events.start()
        self._quota_events.start()
        self.retry.start()
        self._nodes.start()
        self._pods.start()
        self._budget_watch.start()
        self._quota_watch.watcher.start()

    def stop(self) -> None:
        """End every thread; safe to call when nothing was started."""
        for watcher in (*self._watched.values(), self._budget_watch):
            watcher.stop()
        for part in (self.retry, self._events, self._quota_events):
            part.stop()

    def _room(self) -> None:
        self.retry.room()  # the view is there before it
