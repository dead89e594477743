"""An extender of a file: answers filter, prioritize and whoever looks, and writes nothing.

The cluster is what a `List` of nodes, pods and the quota's ConfigMap says (`wire.snapshots`), at
the moment when it was written: time stands still, so a reservation in it lasts. A pod that the
file doesn't hold may be asked about as well, as the request describes it.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from extender.cache.cache import ClusterCache
from extender.cache.decode import Decoder, NodeState
from extender.cache.node_attributes import NodeAttributes
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.pods import PodState
from extender.cache.policy import PolicyKeeper
from extender.cache.snapshot import Snapshotter
from extender.errors import CannotDecide
from extender.observability.cluster_metrics import ClusterCollector
from extender.observability.decision_log import DecisionLog
from extender.observability.metrics import Metrics
from extender.observability.outcome_recorder import OutcomeRecorder
from extender.quota.quotas import Quotas
from extender.settings import ExtenderSettings
from extender.verbs.filter import Filter
from extender.verbs.pod_lookup import Deadline
from extender.verbs.prioritize import Prioritize
from gpustack.adapters.kube import ObjectEvent
from gpustack.model.quota.quota import Quota
from gpustack.wire import extender_v1 as bodies
from gpustack.wire.annotations import BadAnnotation, Keys
from gpustack.wire.files.snapshots import Names, Snapshot, parse, read_file
from gpustack.wire.files.source import title
from gpustack.wire.kube.api_objects import BadObject
from gpustack.wire.nodes import decode_node
from gpustack.wire.quota import BadQuota, decode_quota

logger = logging.getLogger(__name__)

_VERSION: Final = "1"  # of every object: nothing changes any more


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    """What a file holds, read."""

    nodes: list[NodeState]
    pods: list[PodState]
    quota: Quota


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given(bodies.PodName):
    """A pod with what is known of it."""

    state: PodState


class SnapshotExtender:
    """Everything that lives as long as the process."""

    def __init__(self, settings: ExtenderSettings, path: str) -> None:
        """Read the file and compose the parts.

        Raises:
            SourceError: the file can't be read, or something in it; names file and place.
        """
        self._path = title(path)
        reading = Decoder(Keys(settings.domain), settings.labels)
        contents = _read(settings, reading, path)
        self.view = ClusterCache(
            reservation_seconds=settings.reservation_seconds,
            on_room=lambda: None,
            now_ns=lambda: 0,
            clock=lambda: 0.0,
        )
        hosts = NodeAttributes()
        hosts.sync(contents.nodes)
        self.view.sync_nodes(contents.nodes)
        self.view.sync_pods(contents.pods, int(_VERSION))
        self.view.set_quota(contents.quota)
        self.answers = NodeEvaluator(self.view)
        PolicyKeeper(settings.policy, view=self.view, answers=self.answers).renew()
        self.quotas = Quotas(self.view, deny=False)
        self.camera = Snapshotter(self.view, self.answers, hosts)
        self.decisions = DecisionLog()
        self.metrics = Metrics()
        self.metrics.observe(
            watch_age_seconds={},
            reservations=lambda: self.view.reservations,
            cluster=ClusterCollector(self.view, self.quotas, self.decisions),
        )
        self._compose_verbs(_Pods(self.view, reading, self._path), settings.decision_seconds)

    def _compose_verbs(self, pods: "_Pods", decision_seconds: float) -> None:
        telling = OutcomeRecorder(
            events=_Nowhere(),
            count=self.metrics.count,
            decisions=self.decisions,
            wording=lambda _pod, _reasons, _example: str,
        )
        self.filter = pods.named(
            Filter(
                view=self.view,
                answers=self.answers,
                asked=pods,
                retry=_Nowhere(),
                telling=telling,
                decision_seconds=decision_seconds,
            )
        )
        self.prioritize = pods.named(
            Prioritize(
                view=self.view,
                answers=self.answers,
                asked=pods,
                decision_seconds=decision_seconds,
            )
        )

    def predicates(self, _args: bodies.FilterArgs) -> bytes:
        """Refuse to reserve."""
        return self._refuse()

    def bind(self, _args: bodies.BindingArgs) -> bytes:
        """Refuse to bind."""
        return self._refuse()

    def preempt(self, _args: bodies.PreemptionArgs) -> bytes:
        """Refuse to name victims."""
        return self._refuse()

    def _refuse(self) -> bytes:
        text = f"{self._path} is a read-only snapshot: only filter and prioritize are answered"
        raise CannotDecide("ReadOnly", text)

    @property
    def unready(self) -> str:
        """Never: all there is to know is known."""
        return ""

    def start(self) -> None:
        """Say what is served; nothing runs beside the requests."""
        nodes, pods = len(self.view.node_names), len(self.view.pods)
        logger.info("serving a snapshot file=%s nodes=%d pods=%d", self._path, nodes, pods)

    def stop(self) -> None:
        """End nothing."""


class _Nowhere:
    """Takes what a cluster would be told."""

    def told(self, _uid: str, _topic: str) -> bool:
        """Say yes: nobody is to be told anything."""
        return True

    def record(self, event: ObjectEvent) -> None:
        """Drop an Event."""

    def refused(self, pod: PodState, rooms: int) -> None:
        """Wake nobody: no room will appear."""


class _Pods:
    """Finds the pod of a request: in the file, or in the request itself."""

    def __init__(self, view: ClusterCache, reading: Decoder, path: str) -> None:
        self._view = view
        self._reading = reading
        self._path = path

    def named(
        self, verb: Callable[[bodies.FilterArgs], bytes]
    ) -> Callable[[bodies.FilterArgs], bytes]:
        """Return the verb, told of each pod all that is known."""

        def call(args: bodies.FilterArgs) -> bytes:
            pod, state = args.pod, self._state(args)
            if state is None:
                return verb(args)
            given = _Given(namespace=pod.namespace, name=pod.name, uid=pod.uid, state=state)
            return verb(replace(args, pod=given))

        return call

    def find(self, asked: bodies.PodName, _deadline: Deadline) -> PodState:
        """Return the pod.

        Raises:
            CannotDecide: neither the file nor the request describes it.
        """
        if isinstance(asked, _Given):
            return asked.state
        text = f"no pod {asked.namespace}/{asked.name} in {self._path}, and none in the request"
        raise CannotDecide("Gone", text)

    def _state(self, args: bodies.FilterArgs) -> PodState | None:
        pod = args.pod
        known = self._view.pod(pod.uid)
        value = bodies.pod_of(args)
        if known is None and "spec" in value:
            return self._described(pod, value)
        same = (each for each in self._view.pods if each.full_name == f"{pod.namespace}/{pod.name}")
        return known or next(same, None)

    def _described(self, pod: bodies.PodName, value: Mapping[str, Any]) -> PodState:
        given = value.get("metadata")  # another spelling has told its name
        named = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        metadata = {**(given if isinstance(given, dict) else {}), **named}
        try:
            return _pod(self._reading, {**value, "metadata": metadata})
        except BadObject as error:
            raise bodies.BadBody("Pod", str(error)) from error


def _read(settings: ExtenderSettings, reading: Decoder, path: str) -> _Contents:
    quota = settings.quota
    names = Names(quota=(quota.namespace, quota.name), labels=settings.labels)
    found = parse(title(path), read_file(path), names)
    keys = Keys(settings.domain)
    return _Contents(
        nodes=[_checked_node(keys, reading, found, each) for each in found.nodes],
        pods=[_checked_pod(reading, found, each) for each in found.pods],
        quota=_quota(found),
    )


def _checked_node(
    keys: Keys, reading: Decoder, found: Snapshot, item: Mapping[str, Any]
) -> NodeState:
    """Read a node; one that describes no machine is an error of the file's, not left out."""
    try:
        decode_node(keys, item, found.names.labels)
        return reading.node(_encoded(item))
    except (BadAnnotation, BadObject) as error:
        raise found.error(item, error) from error


def _checked_pod(reading: Decoder, found: Snapshot, item: Mapping[str, Any]) -> PodState:
    try:
        return _pod(reading, item)
    except BadObject as error:
        raise found.error(item, error) from error


def _pod(reading: Decoder, item: Mapping[str, Any]) -> PodState:
    """Read a pod; one that somebody wrote by hand needs no UID and no namespace."""
    metadata = dict(item["metadata"])
    namespace = metadata.get("namespace") or "default"
    uid = metadata.get("uid") or f"{namespace}/{metadata['name']}"
    named = {**metadata, "namespace": namespace, "uid": uid}
    return reading.pod(_encoded({**item, "metadata": named}))


def _encoded(item: Mapping[str, Any]) -> bytes:
    versioned = {**item["metadata"], "resourceVersion": _VERSION}
    return json.dumps({**item, "metadata": versioned}).encode()


def _quota(found: Snapshot) -> Quota:
    try:
        return decode_quota(found.quota)
    except BadQuota as error:
        raise found.error(found.quota or {}, error) from error
