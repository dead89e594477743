"""A cluster of many nodes and waiting pods, as a snapshot that the page is shown of."""

from collections.abc import Iterator
from typing import Any

from gpustack.model.node import Card, Node
from tests.cli import snapshots

CREATED = "2026-11-29T12:00:00Z"
JOBS = 40
NAMESPACES = 5


def node(number: int, *, cards: int = 8, model: str = "NVIDIA H100") -> dict[str, Any]:
    """Return a node whose cards are alike."""
    made = (
        Card(minor=minor, uuid=f"GPU-{number}-{minor}", model=model, memory_bytes=80 << 30)
        for minor in range(cards)
    )
    return snapshots.node(Node(name=f"gpu{number:03}", cards=tuple(made)), {"n": str(number)})


def waiting(
    name: str,
    *,
    owner: str = "",
    namespace: str = "default",
    cores: int = 1600,
    created: str = CREATED,
) -> dict[str, Any]:
    """Return a pod that waits, made by a job or by a person."""
    pod = snapshots.pod(name, cores, 0)
    pod["metadata"] |= {"creationTimestamp": created, "namespace": namespace}
    pod["metadata"]["uid"] = f"{namespace}-{name}"
    if owner:
        made_by = {"kind": "Job", "name": owner, "controller": True}
        pod["metadata"]["ownerReferences"] = [made_by]
    return pod


def fleet(nodes: int, pods: int) -> Iterator[dict[str, Any]]:
    """Give the objects of a cluster; every third node has another model, some are cordoned."""
    for number in range(nodes):
        made = node(number, model="NVIDIA H100" if number % 3 else "NVIDIA T4")
        if number % 11 == 4:
            made["spec"] = {"unschedulable": True}
        yield made
    for number in range(pods):
        job = f"train-{number % JOBS}"
        namespace = f"team{number % NAMESPACES}"
        yield waiting(f"{job}-{number}", owner=job, namespace=namespace)
