"""Running trial pods: one kind after the other, on all nodes at once, and taking them away."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gpustack.adapters.kube import KubeClient, KubeError, KubeUnavailable
from gpustack.cli.doctor.cluster.facts import SHARE, WHOLE_CARD, GpuNode, Trial, TrialKind
from gpustack.cli.output import printing
from gpustack.model.cluster.eligibility import NOT_READY, states
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.refusal import Refusal
from gpustack.model.request import PodRequest
from gpustack.wire.keys import Keys
from gpustack.wire.pods import finished, parse_limits

_LABELS: Final = {"app.kubernetes.io/name": "gpustack-doctor"}
_SELECTOR: Final = ",".join(f"{name}={value}" for name, value in _LABELS.items())
_PROGRAM: Final = (
    "/usr/local/nvidia/bin/nvidia-smi",
    "--query-gpu=uuid,memory.total",
    "--format=csv,noheader,nounits",
)
_POLL_SECONDS: Final = 0.5
_MOST_PRINTED: Final = "4096"  # bytes: 16 cards print less than 1024
_USER: Final = 65534  # the nobody of most images; any may run nvidia-smi


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What trial pods are like.

    Attributes:
        image: any image with a C library.
        namespace: where they are made.
        scheduler: who places them; empty for the cluster's own choice.
        seconds: how long the pods of one kind may take in all.
    """

    image: str
    namespace: str
    scheduler: str
    seconds: int


def run(
    client: KubeClient,
    keys: Keys,
    nodes: Sequence[GpuNode],
    used: Mapping[str, Node],
    wanted: Wanted,
) -> tuple[Trial, ...]:
    """Run a share and then a whole card on each GPU node that has room for it.

    Where there is none, no pod is made: it would wait, or take the place of one of less priority.

    Args:
        client: of an identity that may create, list and delete pods, and read their logs.
        keys: of resources and annotations.
        nodes: the GPU nodes.
        used: the nodes by name, with what pods hold of their cards.
        wanted: what they are like.

    Raises:
        KubeError: the server refused to list pods.
        KubeUnavailable: it gave no answer; pods that are left end by themselves.
    """
    runner = _Runner(client, keys, wanted)
    runner.remove_ended({each.name for each in nodes})
    return tuple(trial for kind in (SHARE, WHOLE_CARD) for trial in runner.run(kind, nodes, used))


class _Runner:
    def __init__(self, client: KubeClient, keys: Keys, wanted: Wanted) -> None:
        self._client = client
        self._keys = keys
        self._wanted = wanted
        self._path = f"/api/v1/namespaces/{wanted.namespace}/pods"

    def remove_ended(self, nodes: Collection[str]) -> None:
        """Remove what a killed run has left on these nodes; another may run on others."""
        for pod in self._listed():
            if finished(pod) and (pod.get("spec") or {}).get("nodeName") in nodes:
                self._remove(pod["metadata"]["name"])

    def run(
        self, kind: TrialKind, nodes: Sequence[GpuNode], used: Mapping[str, Node]
    ) -> Iterator[Trial]:
        """Run one kind on all nodes, and remove the pods."""
        made: dict[str, Trial] = {}
        until = time.monotonic() + self._wanted.seconds
        try:
            for node in nodes:
                trial = self._begin(kind, node, used.get(node.name))
                if trial.pod is None:
                    yield trial
                else:
                    made[trial.pod["metadata"]["name"]] = trial
            if made:
                yield from self._finish(kind, made, until)
        finally:
            for name in made:
                self._remove(name)

    def _begin(self, kind: TrialKind, node: GpuNode, used: Node | None) -> Trial:
        trial = Trial(node=node.name, kind=kind)
        body = self._body(kind, node.name)
        if problem := _no_room(node, used, parse_limits(self._keys, body)):
            return replace(trial, problem=f"not tried: {problem}", room=False)
        try:
            return replace(trial, pod=self._client.post(self._path, body))
        except KubeError as error:
            return replace(trial, problem=f"the API server refuses the pod: {error}")

    def _finish(self, kind: TrialKind, made: Mapping[str, Trial], until: float) -> Iterator[Trial]:
        """Wait for the pods to end, or for the moment, and yield what became of each."""
        tell = printing.progress(kind.name) or (lambda _done, _total: None)
        latest = self._latest(made)
        while (ended := sum(map(finished, latest.values()))) < len(made):
            tell(ended, len(made))
            if time.monotonic() >= until:
                break
            time.sleep(_POLL_SECONDS)
            latest = self._latest(made)
        tell(len(made), len(made))  # nothing more is waited for
        for name, pod in latest.items():
            printed = self._printed(name) if finished(pod) else ""
            yield replace(made[name], pod=pod, printed=printed)

    def _latest(self, made: Mapping[str, Trial]) -> dict[str, Mapping[str, Any]]:
        found = {pod["metadata"]["name"]: pod for pod in self._listed()}
        return {name: found.get(name) or {} for name in made}

    def _listed(self) -> list[dict[str, Any]]:
        found = self._client.get(self._path, {"labelSelector": _SELECTOR}).get("items")
        return found if isinstance(found, list) else []

    def _printed(self, name: str) -> str:
        try:
            raw = self._client.get_raw(f"{self._path}/{name}/log", {"limitBytes": _MOST_PRINTED})
        except KubeError as error:
            return f"its log can't be read: {error}"
        return raw.decode("utf-8", "replace").strip()

    def _remove(self, name: str) -> None:
        try:
            self._client.delete(f"{self._path}/{name}", {"gracePeriodSeconds": 1})
        except (KubeError, KubeUnavailable) as error:
            if not (isinstance(error, KubeError) and error.not_found):
                printing.tell(f"pod {self._wanted.namespace}/{name} is left: {error}")

    def _body(self, kind: TrialKind, node: str) -> dict[str, Any]:
        """Return a pod for one node that the standard `restricted` admits."""
        term = {"key": "metadata.name", "operator": "In", "values": [node]}
        terms = {"nodeSelectorTerms": [{"matchFields": [term]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        small = {"cpu": "100m", "memory": "128Mi"}
        limits = {**small, **kind.limits(self._keys)}
        container = {
            "name": "trial",
            "image": self._wanted.image,
            "imagePullPolicy": "IfNotPresent",
            "command": list(_PROGRAM),
            "resources": {"limits": limits, "requests": limits},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            },
        }
        scheduler = self._wanted.scheduler
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "gpustack-doctor-", "labels": _LABELS},
            "spec": {
                **({"schedulerName": scheduler} if scheduler else {}),
                "restartPolicy": "Never",
                "activeDeadlineSeconds": self._wanted.seconds,
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "affinity": {"nodeAffinity": required},
                # A host is tried while it is cordoned, too, and whatever its site's taints are.
                "tolerations": [{"operator": "Exists"}],
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": _USER,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container],
            },
        }


def _no_room(node: GpuNode, used: Node | None, request: PodRequest | None) -> str:
    """Say why a node can't take a trial pod at the moment; empty where it can."""
    if NOT_READY in states(node.host):
        return "the node isn't ready"
    if used is None or request is None or not node.cores:
        return "the node offers no cards, or describes none that can be read"
    found = place(used, request)
    return (found.detail or found.message) if isinstance(found, Refusal) else ""
