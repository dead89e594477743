"""Keeps the quota as the cluster's ConfigMap says, and tells its author what is wrong with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extender.quota.quotas import Quotas
from extender.settings import QuotaSource
from gpustack.adapters import kube
from gpustack.adapters.kube import EventRecorder, ObjectEvent


@dataclass
class QuotaWatch:
    """Follows one ConfigMap, which may come, change, break and go.

    Attributes:
        source: which ConfigMap.
        quotas: takes it.
        events: tells of a ConfigMap that can't be used.
    """

    source: QuotaSource
    quotas: Quotas
    events: EventRecorder

    def watcher(
        self, watch: Callable[..., kube.Watcher[dict[str, Any]]]
    ) -> kube.Watcher[dict[str, Any]]:
        """Return what ``watch`` makes of the ConfigMap's path and our followers of it."""
        return watch(
            f"/api/v1/namespaces/{self.source.namespace}/configmaps",
            decode=kube.as_json,
            on_sync=self._sync,
            on_event=self._event,
            # The one that our rights allow us to read.
            field_selector=f"metadata.name={self.source.name}",
        )

    def _sync(self, config_maps: Sequence[Mapping[str, Any]]) -> None:
        self._take(config_maps[0] if config_maps else None)

    def _event(self, kind: str, config_map: Mapping[str, Any]) -> None:
        self._take(None if kind == "DELETED" else config_map)

    def _take(self, config_map: Mapping[str, Any] | None) -> None:
        self.quotas.take(config_map)
        problem = self.quotas.problem
        if config_map is None or not problem:
            return
        self.events.record(
            ObjectEvent(
                kind="ConfigMap",
                namespace=self.source.namespace,
                name=self.source.name,
                uid=config_map["metadata"]["uid"],
                reason="QuotaUnreadable",
                message=f"{problem}; {self.quotas.consequence}",
                warning=True,
                # An author who mends one fault and makes another is told at once.
                topic=problem,
            )
        )
