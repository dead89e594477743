"""Composition: the extender of a cluster, which it watches and writes to through the API server."""

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

from extender.apiserver.writer import PodWriter
from extender.cache.cache import ClusterCache
from extender.cache.consistent_read import ConsistentRead
from extender.cache.decode import Decoder, NodeState
from extender.cache.pod_disruption_budgets import PodDisruptionBudgets, read_budget
from extender.cache.pods import PodState
from extender.extender_base import ExtenderBase
from extender.observability.agent_usage import AgentUsage
from extender.observability.event_messages import EventMessages
from extender.observability.ignored_keys import IgnoredKeys
from extender.observability.outcome_events import OutcomeEvents
from extender.observability.outcome_recorder import OutcomeRecorder
from extender.quota.quota_watch import QuotaWatch
from extender.requeue.requeue import Requeue
from extender.settings import ExtenderSettings
from extender.verbs.bind import Bind
from extender.verbs.filter import Filter
from extender.verbs.pod_lookup import PodLookup
from extender.verbs.predicates import Predicates
from extender.verbs.preempt import Preempt
from extender.verbs.preempt_turns import PreemptTurns
from extender.verbs.prioritize import Prioritize
from extender.verbs.reserve import Reserver
from gpustack.adapters import kube
from gpustack.wire.keys import Keys


class Extender(ExtenderBase):
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

        Without a ``client``, the settings' kubeconfig names the API server.

        Raises:
            KubeConfigError: the kubeconfig can't be used.
        """
        client = client or kube.KubeClient.from_kubeconfig(settings.kubeconfig)
        cache = ClusterCache(
            reservation_seconds=settings.reservation_seconds, now_ns=now_ns, clock=clock
        )
        super().__init__(settings, cache, clock=clock, now_ns=now_ns)
        keys = Keys(settings.domain)
        decoder = Decoder(keys, settings.labels)
        self._writer = PodWriter(client, keys, decoder, now_ns)
        self._consistent_read = ConsistentRead(client, decoder, cache, clock=clock)
        source = settings.usage
        self._agent_usage = AgentUsage(cache, self.card_utilisation, source) if source else None
        self._compose_events(client, now_ns)
        self._compose_watches(client, decoder, settings)
        self._compose_verbs()

    def _compose_events(self, client: kube.KubeClient, now_ns: Callable[[], int]) -> None:
        """Compose what tells users: of pods, and of the quota."""
        recorder = functools.partial(
            kube.EventRecorder,
            client,
            component="gpustack-extender",
            on_drop=self.metrics.drop_event,
            clock=self._clock,
        )
        self._events = recorder()
        self._quota_events = recorder()  # behind no pods' Events, and not dropped with them
        self._ignored_keys = IgnoredKeys(self._events)
        messages = EventMessages(self.snapshotter, self.evaluator, clock=self._clock)
        self.recorder = OutcomeRecorder(
            count=self.metrics.count,
            decisions=self.decisions,
            waited=self.metrics.pod_wait_seconds.observe,
            now_ns=now_ns,
            write_event=OutcomeEvents(self._events, messages).write,
        )

    def _compose_watches(
        self, client: kube.KubeClient, decoder: Decoder, settings: ExtenderSettings
    ) -> None:
        """Compose what fills the cache."""
        watch = functools.partial(
            kube.Watcher, client, idle_seconds=settings.watch_idle_seconds, clock=self._clock
        )
        self._pods = watch(
            "/api/v1/pods",
            decode=decoder.pod,
            on_sync=self._sync_pods,
            on_event=self._pod_event,
            on_progress=self._pods_shown,
        )
        self._nodes = watch(
            "/api/v1/nodes",
            decode=decoder.node,
            on_sync=self._sync_nodes,
            on_event=self.cache.node_event,
            on_progress=self._nodes_shown,
        )
        quota = QuotaWatch(settings.quota, self.quotas, self._quota_events).watcher(watch)
        self._watched: dict[str, kube.Watcher[Any]] = {
            "nodes": self._nodes,
            "pods": self._pods,
            "quota": quota,
        }
        self.budgets = PodDisruptionBudgets()
        self._budget_watch = watch(
            "/apis/policy/v1/poddisruptionbudgets",
            decode=read_budget,
            on_sync=self.budgets.sync,
            on_event=self.budgets.event,
        )
        self._stale_seconds = settings.stale_seconds
        for name, watcher in self._watched.items():
            self.metrics.show_watch_age(name, functools.partial(getattr, watcher, "age_seconds"))

    def _compose_verbs(self) -> None:
        """Compose what decides, and what has refused pods tried again."""
        cache, evaluator = self.cache, self.evaluator
        self._preempt_turns = PreemptTurns(self._clock)
        self.requeue = Requeue(
            writer=self._writer,
            cache=cache,
            evaluator=evaluator,
            on_tick=self._tick,
            refuses_all=lambda: self.quotas.refuses,
            clock=self._clock,
        )
        cache.on_room = self.requeue.wake
        lookup = PodLookup(cache, self._writer, self.quotas)
        reserver = Reserver(cache, evaluator, self.requeue)
        self.filter = Filter(
            cache=cache,
            evaluator=evaluator,
            find=lookup.find,
            on_refused=self.requeue.refused,
            claim=cache.claim,
        )
        self.prioritize = Prioritize(cache=cache, evaluator=evaluator, find=lookup.find)
        self.predicates = Predicates(
            cache=cache,
            lookup=lookup,
            reserver=reserver,
            consistent_read=self._consistent_read,
            writer=self._writer,
        )
        self.bind = Bind(
            cache=cache,
            evaluator=evaluator,
            lookup=lookup,
            reserver=reserver,
            consistent_read=self._consistent_read,
            writer=self._writer,
        )
        self.preempt = Preempt(
            cache=cache,
            evaluator=evaluator,
            find=lookup.find,
            budgets=self.budgets,
            turns=self._preempt_turns,
        )

    def _tick(self) -> None:
        """Do what is due every second."""
        self.policy.renew()
        pod = self.cache.pod(self._preempt_turns.due(self._wants_victims))
        if pod is not None:
            self.requeue.activate(pod)

    def _wants_victims(self, uid: str) -> bool:
        """Say whether a pod still waits for a node, and none is named for it."""
        pod = self.cache.pod(uid)
        return pod is not None and pod.placeable and not pod.nominated

    def _pods_shown(self, version: str) -> None:
        """Learn how far the watch of pods has come; nowhere, where a list begins."""
        if version:
            self._consistent_read.shown(version)
        else:
            self.cache.begin_pods()

    def _nodes_shown(self, version: str) -> None:
        if version:
            self._consistent_read.nodes_shown(version)
        else:
            self.cache.begin_nodes()

    def _sync_nodes(self, nodes: Sequence[NodeState]) -> None:
        self.cache.sync_nodes(nodes, int(self._nodes.version))

    def _sync_pods(self, pods: Sequence[PodState]) -> None:
        self.cache.sync_pods(pods, int(self._pods.version))
        self.requeue.inherit(pods)
        self._ignored_keys.sync(pods)

    def _pod_event(self, kind: str, pod: PodState) -> None:
        self.cache.pod_event(kind, pod)
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
        """Add the first problem that these watches have."""
        problem = next(filter(None, (self._watched[name].problem for name in names)), "")
        return f"{text}: {problem}" if problem else text

    def start(self) -> None:
        """Begin to watch and to write."""
        for part in (self._events, self._quota_events, self.requeue, self.history):
            part.start()
        if self._agent_usage is not None:
            self._agent_usage.start()
        for watcher in (*self._watched.values(), self._budget_watch):
            watcher.start()

    def stop(self) -> None:
        """End every thread; safe to call when nothing was started."""
        for watcher in (*self._watched.values(), self._budget_watch):
            watcher.stop()
        if self._agent_usage is not None:
            self._agent_usage.stop()
        for part in (self.history, self.requeue, self._events, self._quota_events):
            part.stop()
