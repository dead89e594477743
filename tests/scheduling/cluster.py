"""A small cluster without kubelets, and the questions of its tests."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from gpustack.adapters.kube import KubeClient
from gpustack.model.node import Card, Node
from tests.cluster.kubectl import Kubectl, annotations, scheduling_message, wait_for
from tests.control_plane import fleet, plane
from tests.control_plane.fleet import KEYS

A100, T4 = "NVIDIA A100-SXM4-80GB", "Tesla T4"
_GIB = 1 << 30
_MEMORY = {A100: 80 * _GIB, T4: 16 * _GIB}
_BATCH_SECONDS = 30.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A control plane with nodes, one scheduler and one extender.

    Attributes:
        control: the control plane.
        client: an administrator.
        kubectl: the same, for what people read.
    """

    control: plane.ControlPlane
    client: KubeClient
    kubectl: Kubectl

    def create(self, name: str, *containers: Mapping[str, Any], **fields: Any) -> None:
        """Create a pod of these containers.

        Args:
            name: its name.
            containers: made by ``container``.
            fields: `annotations`, `namespace`, and fields of the spec.
        """
        metadata = {"name": name, "annotations": fields.pop("annotations", {})}
        namespace = fields.pop("namespace", "default")
        spec = {
            "containers": list(containers),
            # no kubelet ends a container here
            "terminationGracePeriodSeconds": 0,
            **fields,
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.client.post(f"/api/v1/namespaces/{namespace}/pods", body)

    def pod(self, name: str, namespace: str = "default") -> dict[str, Any]:
        """Return a pod as it stands."""
        return self.client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")

    def bound(self, name: str, namespace: str = "default") -> tuple[str, dict[str, str]]:
        """Wait until a pod is bound; return its node, and its cards by annotation's last part."""

        def look() -> dict[str, Any]:
            seen = self.pod(name, namespace)
            return seen if seen["spec"].get("nodeName") else {}

        seen = wait_for(f"pod {name} to be bound", look, seconds=_BATCH_SECONDS)
        return seen["spec"]["nodeName"], cards(seen)

    def refused(self, name: str, namespace: str = "default") -> str:
        """Wait until the scheduler has said why a pod waits; return its words."""

        def look() -> str:
            return scheduling_message(self.pod(name, namespace))

        return wait_for(f"pod {name} to be refused", look, seconds=_BATCH_SECONDS)

    def next_in_line(self) -> str:
        """End a pod that holds all linked cards; return the node of one that waited for them."""
        demand = {f"{KEYS.domain}/gpu-topology": "nvlink"}
        self.create("running", container("main", 400), annotations=demand)
        self.bound("running")
        self.create("in-line", container("main", 400), annotations=demand)
        self.refused("in-line")
        self.kubectl.run("delete", "pod", "running", "--force")
        return self.bound("in-line")[0]

    def described(self, name: str, namespace: str = "default") -> str:
        """Return what `kubectl describe pod` prints."""
        return self.kubectl.run("describe", "pod", name, "--namespace", namespace)

    def delete_pods(self) -> None:
        """Delete every pod at once."""
        self.kubectl.run("delete", "pods", "--all", "--all-namespaces", "--force", "--wait")


def cards(pod: Mapping[str, Any]) -> dict[str, str]:
    """Return a decision's card minors: `{"idx-0": "1", "idx-init-0": "1"}`."""
    prefix = f"{KEYS.domain}/predicate-gpu-"
    return {
        key.removeprefix(prefix): value
        for key, value in annotations(pod).items()
        if key.startswith(f"{prefix}idx")
    }


def container(name: str, cores: int, units: int = 0, **fields: Any) -> dict[str, Any]:
    """Return a container that asks for cores, and for units of 256 MiB when it asks for any."""
    limits = {KEYS.vcuda_core: str(cores), KEYS.vcuda_memory: str(units)}
    asked = {key: value for key, value in limits.items() if value != "0"}
    return {"name": name, "image": "none", "resources": {"limits": asked}, **fields}


def machine(
    name: str, model: str, groups: tuple[int, ...], inside: str, between: str, *, pool: str = ""
) -> dict[str, Any]:
    """Return a node whose cards stand in groups.

    Args:
        name: the node's.
        model: every card's.
        groups: how many cards each group has.
        inside: how two cards of one group are joined.
        between: how two cards of different groups are.
        pool: the operator's pool, empty for none.
    """
    group = [number for number, size in enumerate(groups) for _ in range(size)]
    described = Node(
        name=name,
        cards=tuple(
            Card(
                minor=minor,
                uuid=f"GPU-{name}-{minor}",
                model=model,
                memory_bytes=_MEMORY[model],
                sms=108,
                numa=number,
                bus=f"0000:{minor:02x}:00.0",
            )
            for minor, number in enumerate(group)
        ),
        links=tuple(
            tuple(
                "X" if a == b else inside if group[a] == group[b] else between
                for b in range(len(group))
            )
            for a in range(len(group))
        ),
        driver="535.261.03",
        cuda="12.2",
        pool=pool,
    )
    return fleet.gpu_node(described)


NODES = (
    machine("switched", A100, (2, 2), "PIX", "SYS", pool="training"),
    machine("meshed", A100, (4,), "NV12", "NV12", pool="training"),
    machine("small", T4, (2,), "PHB", "PHB", pool="inference"),
)


def quota(namespaces: Mapping[str, Any]) -> dict[str, Any]:
    """Return the quota's ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "gpuquota"},
        "data": {"gpu_quota": json.dumps(namespaces)},
    }
