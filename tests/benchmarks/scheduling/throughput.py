"""Pods a second, end to end, by a real kube-scheduler with and without the extender."""

import contextlib
import time
import urllib.parse
from collections.abc import Iterator, Mapping

import msgspec

from gpustack.adapters.kube import KubeClient, Watcher
from tests.cluster.kubectl import Kubectl
from tests.control_plane import fleet, plane
from tests.testbed.artifacts import kubernetes

_LONGEST_SECONDS = 300.0
_LABEL = "batch"
# Each pod asks little, so that by its totals and by its cards every node has room.
_CORES, _UNITS = 10, 16


class _Metadata(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct):
    node: str = msgspec.field(default="", name="nodeName")


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Bindings:
    """When each pod was seen bound (monotonic seconds)."""

    def __init__(self) -> None:
        self.seen: dict[str, float] = {}

    def sync(self, values: list[_Pod]) -> None:
        for value in values:
            self.event("ADDED", value)

    def event(self, _kind: str, value: _Pod) -> None:
        if value.spec.node:
            self.seen.setdefault(value.metadata.name, time.monotonic())


def measure(
    control: plane.ControlPlane,
    client: KubeClient,
    name: str,
    pods: int,
    configuration: Mapping[str, object],
) -> float:
    """Let a scheduler bind a batch of waiting pods; returns how many a second, first to last.

    Args:
        control: the control plane.
        client: an administrator.
        name: the batch's, and its scheduler's.
        pods: how many.
        configuration: the scheduler's, beside its name and its connection.

    Raises:
        AssertionError: not all were bound within five minutes.
    """
    values = [fleet.waiting_pod(f"{name}-{at:04d}", _CORES, _UNITS) for at in range(pods)]
    for value in values:
        value["metadata"]["labels"] = {_LABEL: name}
        value["spec"]["schedulerName"] = name
    fleet.create_pods(client, values)
    named = {**configuration, "profiles": [{"schedulerName": name}]}
    with _watching(client, name) as bindings, control.scheduler(named, name):
        deadline = time.monotonic() + _LONGEST_SECONDS
        while len(bindings.seen) < pods:
            assert time.monotonic() < deadline, f"{len(bindings.seen)} of {pods} pods were bound"
            time.sleep(0.05)
    times = bindings.seen.values()
    _delete(control, name)
    return (pods - 1) / (max(times) - min(times))


def _delete(control: plane.ControlPlane, batch: str) -> None:
    """Delete a batch, so that the next one meets the same cluster."""
    selector = urllib.parse.urlencode({"labelSelector": f"{_LABEL}={batch}"})
    pods = f"/api/v1/namespaces/default/pods?{selector}&gracePeriodSeconds=0"
    kubectl = Kubectl(binary=kubernetes.CURRENT.bin / "kubectl", kubeconfig=control.admin)
    kubectl.run("delete", f"--raw={pods}", seconds=_LONGEST_SECONDS)


@contextlib.contextmanager
def _watching(client: KubeClient, batch: str) -> Iterator[_Bindings]:
    bindings = _Bindings()
    watcher = Watcher(
        client,
        "/api/v1/namespaces/default/pods",
        decode=msgspec.json.Decoder(_Pod).decode,
        on_sync=bindings.sync,
        on_event=bindings.event,
        label_selector=f"{_LABEL}={batch}",
    )
    watcher.start()
    try:
        yield bindings
    finally:
        watcher.stop()
