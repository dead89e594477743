"""Reading what the checks of a cluster need; what can't be read is noted, and the rest is read."""

import argparse
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from gpustack.adapters.kube import KubeClient, KubeError, KubeUnavailable
from gpustack.cli import clusters, options, source
from gpustack.cli.doctor.cluster import facts, trial_run
from gpustack.cli.doctor.cluster.facts import (
    LEASES,
    NODES,
    PODS,
    POLICIES,
    QUOTA,
    TRIALS,
    VERSION,
    AdmissionPolicies,
    ClusterFacts,
    Lease,
)
from gpustack.model.cluster.cluster import settle
from gpustack.wire.files.snapshots import Names, Snapshot
from gpustack.wire.keys import Keys

_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
# Those of kube-scheduler's own name, and of a scheduler of ours (the role kube_scheduler).
_SCHEDULERS: Final = ("kube-scheduler", "gpustack-scheduler")
POD_SECONDS: Final = 120
"""How long the trial pods of one kind may take, where nothing else is told."""

_T = TypeVar("_T")
_SNAPSHOT: Final = "a snapshot doesn't have it; ask the cluster, without --snapshot"


def read(chosen: argparse.Namespace) -> ClusterFacts:
    """Return the facts of the cluster or the snapshot that the options name.

    Raises:
        GpustackError: the kubeconfig or the file can't be used.
    """
    keys, now = Keys(chosen.domain), datetime.datetime.now(datetime.UTC)
    if chosen.snapshot is not None:
        snapshot = options.read(chosen)
        return ClusterFacts(
            keys=keys,
            now=now,
            snapshot=snapshot,
            gpu_nodes=facts.gpu_nodes(keys, snapshot),
            absent=dict.fromkeys((VERSION, POLICIES, LEASES), _SNAPSHOT),
        )
    context = source.find(chosen)
    client = KubeClient.of_context(context)
    reader = _Reader(client)
    version = reader.take(VERSION, reader.version)
    if reader.silent:  # each question would wait for as long again
        silent = dict.fromkeys(
            (NODES, PODS, QUOTA, POLICIES, LEASES, TRIALS), "no API server answers"
        )
        snapshot = options.parse(chosen, context, {"items": []})
        return ClusterFacts(
            keys=keys, now=now, snapshot=snapshot, unread=reader.unread, absent=silent
        )
    items = [
        item
        for name, question in (
            (NODES, lambda: reader.items("Node")),
            (PODS, lambda: reader.items("Pod")),
            (QUOTA, lambda: reader.quota(options.names(chosen))),
        )
        for item in reader.take(name, question) or ()
    ]
    snapshot = options.parse(chosen, context, {"items": items})
    nodes = facts.gpu_nodes(keys, snapshot)
    trials: tuple[facts.Trial, ...] | None = None
    if chosen.run_pods is not None and not reader.unread.keys() & {NODES, PODS}:
        trials = reader.take(TRIALS, lambda: _try(chosen, client, nodes, snapshot))
    return ClusterFacts(
        keys=keys,
        now=now,
        snapshot=snapshot,
        gpu_nodes=nodes,
        version=version or "",
        policies=reader.take(POLICIES, reader.policies) or AdmissionPolicies(),
        leases=reader.take(LEASES, reader.leases) or (),
        trials=trials or (),
        unread=reader.unread,
    )


def _try(
    chosen: argparse.Namespace,
    client: KubeClient,
    nodes: Sequence[facts.GpuNode],
    snapshot: Snapshot,
) -> tuple[facts.Trial, ...]:
    """Run the pods that the options ask for; what pods hold is read once for all nodes."""
    keys = Keys(chosen.domain)
    known = (each.node for each in nodes if each.node is not None)
    used = settle(known, clusters.tenants(keys, snapshot)).nodes
    wanted = trial_run.Wanted(
        image=chosen.run_pods,
        namespace=chosen.namespace or "default",
        scheduler=chosen.scheduler_name or "",
        seconds=chosen.pod_seconds or POD_SECONDS,
    )
    if chosen.node is None:
        return trial_run.run(client, keys, nodes, used, wanted)
    named = [each for each in nodes if each.name in chosen.node]
    unknown = set(chosen.node) - {each.name for each in named}
    missing = (
        facts.Trial(node=name, kind=kind, problem="no GPU node has this name")
        for name in sorted(unknown)
        for kind in (facts.SHARE, facts.WHOLE_CARD)
    )
    return (*missing, *trial_run.run(client, keys, named, used, wanted))


class _Reader:
    """Asks one API server, and notes what it doesn't answer.

    Attributes:
        unread: why an input can't be read, by its name.
        silent: whether the server has given no answer at all.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self.unread: dict[str, str] = {}
        self.silent = False

    def take(self, name: str, question: Callable[[], _T]) -> _T | None:
        """Return an answer; None where there is none, which is noted."""
        try:
            return question()
        except KubeError as error:
            self.unread[name] = str(error)
        except KubeUnavailable as error:
            self.unread[name] = str(error)
            self.silent = True
        return None

    def version(self) -> str:
        return source.read_version(self._client)

    def items(self, kind: str) -> list[dict[str, Any]]:
        return list(source.read_items(self._client, kind))

    def quota(self, names: Names) -> list[dict[str, Any]]:
        namespace, name = names.quota
        body = self._found(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        return [] if body is None else [{"apiVersion": "v1", "kind": "ConfigMap", **body}]

    def policies(self) -> AdmissionPolicies:
        policies = self._found(f"{_ADMISSION}/validatingadmissionpolicies")
        if policies is None:
            return AdmissionPolicies(served=False)
        bindings = self._client.get(f"{_ADMISSION}/validatingadmissionpolicybindings")
        return facts.parse_policies(policies, bindings)

    def leases(self) -> tuple[Lease, ...]:
        return tuple(self._leases())

    def _leases(self) -> Iterator[Lease]:
        for name in _SCHEDULERS:
            if (body := self._found(f"{_LEASES}/{name}")) is not None:
                yield facts.parse_lease(name, body)

    def _found(self, path: str) -> Mapping[str, Any] | None:
        """Return an object or a list; None where the server has none."""
        try:
            return self._client.get(path)
        except KubeError as error:
            if error.status != source.NOT_FOUND:
                raise
            return None
