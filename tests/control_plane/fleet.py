"""Fill a control plane with GPU nodes and pods that hold their cards."""

import concurrent.futures
from collections.abc import Callable, Iterable
from typing import Any

from gpustack.adapters.kube import KubeClient
from gpustack.model.node import Card, Node
from gpustack.model.placement import ContainerPlacement, Placement
from gpustack.model.request import ContainerKind
from gpustack.wire.annotations import encode_decision
from gpustack.wire.keys import Keys
from gpustack.wire.nodes import encode_devices

KEYS = Keys("tencent.com")
CARDS = 8
MEMORY_BYTES = 80 << 30
SHARE_CORES, SHARE_UNITS = 30, 64
_WRITERS = 8
_DECIDED_NS = 1_700_000_000_000_000_000
# Two switches on each of two sockets.
_LINKS = tuple(
    tuple(
        "X" if a == b else "PIX" if a // 2 == b // 2 else "PHB" if a // 4 == b // 4 else "SYS"
        for b in range(CARDS)
    )
    for a in range(CARDS)
)


def name_of(number: int) -> str:
    """Return the name of a node of the fleet."""
    return f"gpu-{number:05d}"


def gpu_node(described: Node, *, images: int = 0) -> dict[str, Any]:
    """Return a node of the API with these cards, as its agent describes it.

    Args:
        described: the node.
        images: how many images it lists; with 50 the object is some 13 KB long.
    """
    amounts = {
        "cpu": "128",
        "memory": "1Ti",
        "pods": "500",
        KEYS.vcuda_core: str(len(described.cards) * 100),
        KEYS.vcuda_memory: str(sum(card.memory_units for card in described.cards)),
    }
    pool = {"gaia.tencent.com/gpu-pool": described.pool} if described.pool else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": described.name,
            "labels": {
                "nvidia-device-enable": "enable",
                "kubernetes.io/hostname": described.name,
                **pool,
            },
            "annotations": {KEYS.gpu_devices: encode_devices(described)},
        },
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [_image(at) for at in range(images)],
        },
    }


def node(number: int, *, images: int = 0) -> dict[str, Any]:
    """Return a node of the fleet: eight 80 GiB cards."""
    cards = tuple(
        Card(
            minor=minor,
            uuid=f"GPU-{number:08x}-0000-4000-8000-{minor:012x}",
            model="NVIDIA A100-SXM4-80GB",
            memory_bytes=MEMORY_BYTES,
            sms=108,
            numa=minor // 4,
            bus=f"0000:{minor:02x}:00.0",
        )
        for minor in range(CARDS)
    )
    described = Node(
        name=name_of(number), cards=cards, links=_LINKS, driver="535.261.03", cuda="12.2"
    )
    return gpu_node(described, images=images)


def _image(number: int) -> dict[str, Any]:
    digest = f"{number:064x}"
    name = f"registry.example.org/team/training-service-{number:03d}"
    return {"names": [f"{name}@sha256:{digest}", f"{name}:v1.2.3"], "sizeBytes": 512 << 20}


def waiting_pod(name: str, cores: int = SHARE_CORES, units: int = SHARE_UNITS) -> dict[str, Any]:
    """Return a pod of one container that asks for a share."""
    limits = {KEYS.vcuda_core: str(cores), KEYS.vcuda_memory: str(units)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}]
        },
    }


def bound_pod(number: int, minor: int) -> dict[str, Any]:
    """Return a pod that holds a share of one card of a node."""
    value = waiting_pod(f"held-{number:05d}-{minor}")
    container = ContainerPlacement(
        name="main",
        kind=ContainerKind.APP,
        index=0,
        minors=(minor,),
        uuids=(f"GPU-{number:08x}-0000-4000-8000-{minor:012x}",),
        cores=SHARE_CORES,
        memory_units=SHARE_UNITS,
    )
    placement = Placement(node=name_of(number), containers=(container,))
    value["metadata"]["annotations"] = dict(encode_decision(KEYS, placement, _DECIDED_NS))
    value["spec"]["nodeName"] = name_of(number)
    return value


def fill(client: KubeClient, numbers: Iterable[int], *, pods_each: int) -> None:
    """Create these nodes, and on each as many pods as ``pods_each``, one a card."""
    wanted = list(numbers)
    create_all(lambda value: client.post("/api/v1/nodes", value), (node(at) for at in wanted))
    held = (bound_pod(at, minor) for at in wanted for minor in range(pods_each))
    create_pods(client, held)


def create_pods(client: KubeClient, pods: Iterable[dict[str, Any]]) -> None:
    """Create pods of the namespace `default`."""
    create_all(lambda value: client.post("/api/v1/namespaces/default/pods", value), pods)


def create_all(
    create: Callable[[dict[str, Any]], object], values: Iterable[dict[str, Any]]
) -> None:
    """Make many calls, several at a time.

    Raises:
        KubeError: one was refused.
    """
    with concurrent.futures.ThreadPoolExecutor(_WRITERS) as pool:
        for _ in pool.map(create, values):
            pass
