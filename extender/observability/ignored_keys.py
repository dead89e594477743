"""Events on bound pods whose user keys can't be read: they are ignored, which nothing else says."""

import collections
from collections.abc import Iterable
from typing import Final

from extender.cache.pods import PodState
from extender.observability.outcome_events import pod_event
from gpustack.adapters.kube import EventRecorder

_REASON: Final = "UserKeyIgnored"
_REMEMBERED: Final = 10_000  # pods; of the others an Event may be written a second time


class IgnoredKeys:
    """Tells each pod once for each text; fed by the watch of the pods, on one thread."""

    def __init__(self, events: EventRecorder) -> None:
        self._events = events
        self._told: collections.OrderedDict[str, str] = collections.OrderedDict()

    def sync(self, pods: Iterable[PodState]) -> None:
        """Look at all pods."""
        for pod in pods:
            self._look(pod)

    def event(self, kind: str, pod: PodState) -> None:
        """Look at one pod that has changed."""
        if kind == "DELETED":
            self._told.pop(pod.uid, None)
        else:
            self._look(pod)

    def _look(self, pod: PodState) -> None:
        if pod.ignored is None or pod.finished:
            self._told.pop(pod.uid, None)
            return
        message = f"{pod.ignored.message}; ignored, because the pod is bound to node {pod.node}"
        if self._told.get(pod.uid) == message or self._events.told(pod.uid, _REASON):
            return
        self._told[pod.uid] = message
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        self._events.record(pod_event(pod, _REASON, message))
