"""How long the scheduler waits for an answer, by fleet and by form of the question."""

import dataclasses
import http.client
import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

from gpustack.adapters.kube import KubeClient
from tests.benchmarks.timing import Timing, summary
from tests.control_plane import extending, fleet

_PODS = "/api/v1/namespaces/default/pods"
_IMAGES = 50  # what a busy node lists: the object is then some 13 KB long
_ORDERS = 5
_BEAT = "2026-01-01T00:00:00Z"
# What a kubelet says of a node beside its amounts.
_STATUS = {
    "conditions": [
        {
            "type": kind,
            "status": status,
            "lastHeartbeatTime": _BEAT,
            "lastTransitionTime": _BEAT,
            "reason": reason,
            "message": f"kubelet says {reason}",
        }
        for kind, status, reason in (
            ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            ("PIDPressure", "False", "KubeletHasSufficientPID"),
            ("Ready", "True", "KubeletReady"),
        )
    ],
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    "nodeInfo": {
        "machineID": f"{1:032x}",
        "systemUUID": "00000000-0000-4000-8000-000000000001",
        "bootID": "00000000-0000-4000-8000-000000000002",
        "kernelVersion": "6.1.0-40-amd64",
        "osImage": "Debian GNU/Linux 12 (bookworm)",
        "containerRuntimeVersion": "containerd://1.6.20",
        "kubeletVersion": "v1.34.0",
        "kubeProxyVersion": "v1.34.0",
        "operatingSystem": "linux",
        "architecture": "amd64",
    },
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way to ask.

    Attributes:
        verb: the path below `/scheduler`.
        nodes: the body's part that names the nodes, in some orders: a scheduler's order differs
            each time, and a question that comes twice in a row is remembered.
        once: every question is about a pod of its own, because its answer is written on the pod.
    """

    verb: str
    nodes: tuple[str, ...]
    once: bool


def by_name(verb: str, nodes: int, *, once: bool = False) -> Form:
    """Return the question of a scheduler with ``nodeCacheCapable: true``."""
    names = [fleet.name_of(at) for at in range(nodes)]
    orders = (names[at:] + names[:at] for at in range(0, nodes, max(1, nodes // _ORDERS)))
    # As Go writes them.
    lists = (json.dumps(order, separators=(",", ":")) for order in orders)
    return Form(verb=verb, nodes=tuple(f'"NodeNames":{each}' for each in lists), once=once)


def in_full(nodes: int, *, described: bool = True, images: int = 0) -> Form:
    """Return the question of a scheduler with a Policy, which sends every node as it has it.

    Args:
        nodes: how many.
        described: they carry our agent's annotation; without it one is some 1.6 KB long.
        images: how many images each lists.
    """
    sent = [_as_kept(fleet.node(at, images=images), described) for at in range(nodes)]
    items = json.dumps(sent, separators=(",", ":"))  # as Go writes it
    return Form(verb="predicates", nodes=(f'"Nodes":{{"items":{items}}}',), once=True)


def _as_kept(node: dict[str, Any], described: bool) -> dict[str, Any]:
    """Return a node as a scheduler's cache has it: without its kind, which client-go drops."""
    metadata = {**node["metadata"], "uid": f"node-{node['metadata']['name']}"}
    if not described:
        del metadata["annotations"]
    return {"metadata": metadata, "spec": {}, "status": {**node["status"], **_STATUS}}


def forms(nodes: int) -> dict[str, Form]:
    """Return the questions that are worth asking a fleet of this size."""
    found = {
        "filter, names": by_name("filter", nodes),
        "prioritize, names": by_name("prioritize", nodes),
        "predicates, names": by_name("predicates", nodes, once=True),
        "predicates, thin nodes": in_full(nodes, described=False),
        "predicates, nodes described": in_full(nodes),
    }
    if nodes <= 1000:
        found["predicates, nodes with 50 images"] = in_full(nodes, images=_IMAGES)
    return found


class Asker:
    """Asks one extender, over one connection that is kept, as a scheduler does."""

    def __init__(
        self, client: KubeClient, extender: extending.RunningExtender, prefix: str
    ) -> None:
        """Connect; the pods that are asked about get names that begin with ``prefix``."""
        self._client = client
        self._prefix = prefix
        self._connection: http.client.HTTPConnection = extender.connect()
        self._numbers = itertools.count()

    def time(self, form: Form, *, times: int) -> Timing:
        """Measure answers, after one that is not counted."""
        path = f"/scheduler/{form.verb}"
        bodies = self._bodies(form)
        seconds = []
        for _ in range(times + 1):
            body = next(bodies)
            started = time.perf_counter()
            answer = extending.call(self._connection, path, body)
            seconds.append(time.perf_counter() - started)
            if isinstance(answer, dict):
                assert not answer["Error"], answer["Error"]
            if form.once:
                bodies = self._bodies(form)
        return summary(seconds[1:])

    def _bodies(self, form: Form) -> Iterator[bytes]:
        """Return the bodies of questions about a pod, one after another."""
        pod = self._client.post(_PODS, fleet.waiting_pod(f"{self._prefix}-{next(self._numbers)}"))
        text = json.dumps(pod)
        return itertools.cycle([f'{{"Pod":{text},{nodes}}}'.encode() for nodes in form.nodes])
