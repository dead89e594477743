"""Snapshots for the command line's tests: one node of two cards, and pods on it."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from gpustack.model.node import Card, Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.wire.annotations import encode_decision
from gpustack.wire.keys import Keys
from gpustack.wire.nodes import encode_devices
from gpustack.wire.pods import parse_request

KEYS = Keys()
CARDS = tuple(
    Card(minor=minor, uuid=f"GPU-{minor}", model="NVIDIA T4", memory_bytes=16 << 30)
    for minor in range(2)
)
NODE = Node(name="gpu1", cards=CARDS, links=(("X", "PIX"), ("PIX", "X")))


def node(of: Node = NODE, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a node of the API that publishes its cards."""
    annotations = {KEYS.gpu_devices: encode_devices(of)}
    metadata = {"name": of.name, "annotations": annotations, "labels": dict(labels or {})}
    return {"kind": "Node", "metadata": metadata}


def pod(name: str, cores: int | str, memory: int, *, held: bool = False) -> dict[str, Any]:
    """Return a pod of one container; a held pod has the cards that an empty NODE would give it."""
    limits = {KEYS.vcuda_core: str(cores), KEYS.vcuda_memory: str(memory)}
    item: dict[str, Any] = {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
    }
    if held:
        request = parse_request(KEYS, item)
        assert request is not None
        placement = place(NODE, request)
        assert isinstance(placement, Placement)
        item["metadata"]["annotations"] = encode_decision(KEYS, placement, 1)
        item["spec"]["nodeName"] = NODE.name
    return item


def half_bad(name: str) -> dict[str, Any]:
    """Return a held pod with a second container, whose limits no pod that waits may have.

    The original's manager runs such pods, each container judged by itself.
    """
    item = pod(name, 60, 8, held=True)
    alone = {"name": "alone", "resources": {"limits": {KEYS.vcuda_memory: "1"}}}
    item["spec"]["containers"].append(alone)
    return item


def quota(text: str) -> dict[str, Any]:
    """Return the quota's ConfigMap."""
    metadata = {"namespace": "kube-system", "name": "gpuquota"}
    return {"kind": "ConfigMap", "metadata": metadata, "data": {"gpu_quota": text}}


def write(folder: pathlib.Path, *items: object) -> str:
    """Write a snapshot; return its path."""
    path = folder / "snapshot.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    return str(path)
