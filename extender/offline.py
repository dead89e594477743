"""An extender of a file: answers filter, prioritize and every GET, and writes nothing.

The cluster is what a `List` of nodes, pods and the quota's ConfigMap says (`wire.snapshots`), at
the moment when it was written: time stands still, so a reservation in it lasts. A pod that the
file doesn't hold may be asked about as well, as the request describes it.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from extender.cache.cache import ClusterCache
from extender.cache.decode import Decoder, NodeState
from extender.cache.pods import PodState
from extender.errors import CannotDecide
from extender.extender_base import ExtenderBase
from extender.observability.outcome_recorder import OutcomeRecorder
from extender.settings import ExtenderSettings
from extender.verbs.deadline import Deadline
from extender.verbs.filter import Filter
from extender.verbs.outcome import Outcome
from extender.verbs.prioritize import Prioritize
from gpustack.wire import extender_v1 as bodies
from gpustack.wire.annotations import BadAnnotation
from gpustack.wire.files.snapshots import Names, Snapshot, parse, read_file
from gpustack.wire.files.source import title
from gpustack.wire.keys import Keys
from gpustack.wire.kube.api_objects import BadObject
from gpustack.wire.nodes import decode_node
from gpustack.wire.quota import BadQuota, decode_quota

logger = logging.getLogger(__name__)

_Read = TypeVar("_Read")

_VERSION: Final = "1"  # of every object: nothing changes any more


class OfflineExtender(ExtenderBase):
    """Everything that lives as long as the process; nothing runs beside the requests."""

    def __init__(self, settings: ExtenderSettings, path: str) -> None:
        """Read the file and compose the parts.

        Raises:
            SourceError: the file can't be read, or something in it; names file and place.
        """
        seconds = settings.reservation_seconds
        cache = ClusterCache(reservation_seconds=seconds, now_ns=lambda: 0, clock=lambda: 0.0)
        super().__init__(settings, cache)
        self._path = title(path)
        self._keys, self._labels = Keys(settings.domain), settings.labels
        self._decoder = Decoder(self._keys, self._labels)
        quota = settings.quota.namespace, settings.quota.name
        found = parse(self._path, read_file(path), Names(quota=quota, labels=self._labels))
        version = int(_VERSION)
        cache.sync_nodes([_checked(found, each, self._node) for each in found.nodes], version)
        cache.sync_pods([_checked(found, each, self._pod) for each in found.pods], version)
        if found.quota is not None:
            cache.set_quota(_checked(found, found.quota, decode_quota))
        self.policy.renew()
        self.recorder = OutcomeRecorder(
            count=self.metrics.count,
            decisions=self.decisions,
            waited=self.metrics.pod_wait_seconds.observe,
            now_ns=time.time_ns,
            write_event=lambda _pod, _outcome: None,
        )
        self.filter = Filter(
            cache=cache,
            evaluator=self.evaluator,
            find=self._find,
            on_refused=lambda _pod, _results, _time: None,
            claim=lambda _pod, _choices: True,  # no pod is bound later
        )
        self.prioritize = Prioritize(cache=cache, evaluator=self.evaluator, find=self._find)
        self.predicates = self.bind = self.preempt = self._refuse

    def start(self) -> None:
        """Log what is served."""
        nodes, pods = len(self.cache.node_names), len(self.cache.pods)
        logger.info("serving a snapshot file=%s nodes=%d pods=%d", self._path, nodes, pods)

    def _refuse(self, _args: object, _deadline: Deadline) -> Outcome:
        text = f"{self._path} is a read-only snapshot: only filter and prioritize are answered"
        raise CannotDecide("ReadOnly", text)

    def _find(self, pod: bodies.PodName, _deadline: Deadline) -> PodState:
        """Return the pod of a request: of the file, or as the request describes it.

        Raises:
            CannotDecide: neither the file nor the request describes it.
            BadBody: the request describes no pod.
        """
        known = self.cache.pod(pod.uid)
        value = bodies.pod_of(pod)
        if known is None and "spec" in value:
            return self._described(pod, value)
        name = f"{pod.namespace}/{pod.name}"
        found = known or next((p for p in self.cache.pods if p.full_name == name), None)
        if found is None:
            raise CannotDecide("Gone", f"no pod {name} in {self._path}, and none in the request")
        return found

    def _described(self, pod: bodies.PodName, value: Mapping[str, Any]) -> PodState:
        given = value.get("metadata")  # another spelling has told its name
        named = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        metadata = {**(given if isinstance(given, dict) else {}), **named}
        try:
            return self._pod({**value, "metadata": metadata})
        except BadObject as error:
            raise bodies.BadBody("Pod", str(error)) from error

    def _node(self, item: Mapping[str, Any]) -> NodeState:
        """Read a node; one that describes no machine is an error of the file's, not left out."""
        decode_node(self._keys, item, self._labels)
        return self._decoder.node(_encoded(item))

    def _pod(self, item: Mapping[str, Any]) -> PodState:
        """Read a pod; one that was written by hand needs no UID and no namespace."""
        metadata = dict(item["metadata"])
        namespace = metadata.get("namespace") or "default"
        uid = metadata.get("uid") or f"{namespace}/{metadata['name']}"
        named = {**metadata, "namespace": namespace, "uid": uid}
        return self._decoder.pod(_encoded({**item, "metadata": named}))


def _checked(
    found: Snapshot, item: Mapping[str, Any], read: Callable[[Mapping[str, Any]], _Read]
) -> _Read:
    """Read an object of the file; an error names its place there."""
    try:
        return read(item)
    except (BadAnnotation, BadObject, BadQuota) as error:
        raise found.error(item, error) from error


def _encoded(item: Mapping[str, Any]) -> bytes:
    versioned = {**item["metadata"], "resourceVersion": _VERSION}
    return json.dumps({**item, "metadata": versioned}).encode()
