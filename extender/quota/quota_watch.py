"""Keeps the quota as the cluster's ConfigMap says, and tells its author what is wrong with it."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from extender.quota.quotas import Quotas
from extender.settings import QuotaSource
from gpustack.adapters import kube
from gpustack.adapters.kube import EventRecorder, ObjectEvent


class QuotaWatch:
    """Follows one ConfigMap, which may come, change, break and go."""

    def __init__(
        self,
        client: kube.KubeClient,
        source: QuotaSource,
        *,
        quotas: Quotas,
        events: EventRecorder,
        idle_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Compose; nothing is asked until the watcher is started.

        Args:
            client: the API server.
            source: which ConfigMap.
            quotas: what takes it.
            events: what tells of a ConfigMap that can't be used.
            idle_seconds: silence after which the watch is opened again.
            clock: monotonic seconds.
        """
        self._source = source
        self._quotas = quotas
        self._events = events
        self.watcher: kube.Watcher[dict[str, Any]] = kube.Watcher(
            client,
            f"/api/v1/namespaces/{source.namespace}/configmaps",
            decode=kube.as_json,
            on_sync=self._sync,
            on_event=self._event,
            # The one that our rights allow us to read.
            field_selector=f"metadata.name={source.name}",
            idle_seconds=idle_seconds,
            clock=clock,
        )

    def _sync(self, config_maps: Sequence[Mapping[str, Any]]) -> None:
        self._take(config_maps[0] if config_maps else None)

    def _event(self, kind: str, config_map: Mapping[str, Any]) -> None:
        self._take(None if kind == "DELETED" else config_map)

    def _take(self, config_map: Mapping[str, Any] | None) -> None:
        self._quotas.take(config_map)
        problem = self._quotas.problem
        if config_map is None or not problem:
            return
        self._events.record(
            ObjectEvent(
                kind="ConfigMap",
                namespace=self._source.namespace,
                name=self._source.name,
                uid=config_map["metadata"]["uid"],
                reason="QuotaUnreadable",
                message=f"{problem}; {self._quotas.consequence}",
                warning=True,
                # An author who mends one fault and makes another is told at once.
                topic=problem,
            )
        )
