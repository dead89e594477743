"""Composition: one extender from its settings, without the HTTP server around it."""

import time

from extender.events import EventRecorder
from extender.metrics import Metrics
from extender.predicates import Predicates
from extender.retry import RetryQueue
from extender.settings import Settings
from extender.view import ClusterView
from extender.writer import PodWriter
from gpustack.adapters import kube
from gpustack.wire.annotations import Keys


class Extender:
    """Everything that lives as long as the process."""

    def __init__(self, settings: Settings) -> None:
        """Compose the parts; nothing runs and nothing is asked until ``start``.

        Raises:
            KubeConfigError: the kubeconfig can't be used.
        """
        client = kube.KubeClient.from_kubeconfig(settings.kubeconfig)
        keys = Keys(settings.domain)
        writer = PodWriter(client, keys)
        self.metrics = Metrics()
        self._events = EventRecorder(client, on_drop=self.metrics.drop_event)
        self._retry = RetryQueue(writer, now_ns=time.time_ns, on_tick=self._tick)
        self.view = ClusterView(
            keys,
            reservation_seconds=settings.reservation_seconds,
            now_ns=time.time_ns,
            on_room=self._retry.room,
        )
        self.predicates = Predicates(
            view=self.view,
            writer=writer,
            events=self._events,
            retry=self._retry,
            count=self.metrics.count,
            decision_seconds=settings.decision_seconds,
        )
        self._nodes, self._pods = self._watchers(client, settings.watch_idle_seconds)
        self.metrics.observe(
            watch_age_seconds={
                "nodes": lambda: self._nodes.age_seconds,
                "pods": lambda: self._pods.age_seconds,
            },
            reservations=lambda: self.view.reservations,
        )

    def _watchers(
        self, client: kube.KubeClient, idle_seconds: float
    ) -> tuple[kube.Watcher, kube.Watcher]:
        nodes = kube.Watcher(
            client,
            "/api/v1/nodes",
            on_sync=self.view.sync_nodes,
            on_event=self.view.node_event,
            idle_seconds=idle_seconds,
        )
        pods = kube.Watcher(
            client,
            "/api/v1/pods",
            on_sync=lambda items: self.view.sync_pods(items, int(pods.version)),
            on_event=self.view.pod_event,
            idle_seconds=idle_seconds,
        )
        return nodes, pods

    @property
    def unready(self) -> str:
        """Why no decision can be made yet; empty when it can."""
        missing = [
            name
            for name, watcher in (("nodes", self._nodes), ("pods", self._pods))
            if not watcher.synced.is_set()
        ]
        return f"the first list of {' and '.join(missing)} is still missing" if missing else ""

    def start(self) -> None:
        """Begin to watch and to write."""
        self._events.start()
        self._retry.start()
        self._nodes.start()
        self._pods.start()

    def stop(self) -> None:
        """End every thread; safe to call when nothing was started."""
        for part in (self._nodes, self._pods, self._retry, self._events):
            part.stop()

    def _tick(self) -> None:
        self.view.expire()
