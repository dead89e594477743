"""The kubelet's state of a pod, and its two forms: PodResources and the checkpoint file."""

import base64
import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpustack.adapters.deviceplugin import deviceplugin_pb2 as plugin_pb
from gpustack.adapters.podresources import podresources_pb2 as resources_pb

Pod = Mapping[str, Any]


@dataclasses.dataclass(slots=True)
class Known:
    """A pod that the kubelet runs: container, resource, IDs; and the plugins' answers."""

    pod: Pod
    devices: dict[str, dict[str, list[str]]] = dataclasses.field(default_factory=dict)
    answers: dict[str, plugin_pb.ContainerAllocateResponse] = dataclasses.field(
        default_factory=dict
    )
    rejected: bool = False


def containers_in_order(pod: Pod) -> Sequence[Mapping[str, Any]]:
    """Return the containers in the order in which the kubelet admits them."""
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def pod_resources(known: Known) -> resources_pb.PodResources:
    answer = resources_pb.PodResources(
        name=known.pod["metadata"]["name"], namespace=known.pod["metadata"]["namespace"]
    )
    for container in known.pod["spec"].get("initContainers", ()):
        if container.get("restartPolicy") == "Always":
            _add(answer, known, container["name"])
    for container in known.pod["spec"]["containers"]:
        _add(answer, known, container["name"])
    return answer


def _add(answer: resources_pb.PodResources, known: Known, container: str) -> None:
    entry = answer.containers.add(name=container)
    for resource, ids in known.devices.get(container, {}).items():
        entry.MergeFrom(_devices(resource, tuple(ids)))


@functools.lru_cache(1024)  # a full node has 12 000: made anew, they took longer than the agent
def _devices(resource: str, ids: tuple[str, ...]) -> resources_pb.ContainerResources:
    """Return the IDs as the kubelet does: one entry for each."""
    made = resources_pb.ContainerResources()
    for device in ids:
        made.devices.add(resource_name=resource, device_ids=[device])
    return made


def reusable_devices(known: Known, container: str, resource: str) -> list[str]:
    """Return the devices of ordinary init containers that a later container may have."""
    order = [each["name"] for each in containers_in_order(known.pod)]
    ordinary_init = {
        each["name"]
        for each in known.pod["spec"].get("initContainers", ())
        if each.get("restartPolicy") != "Always"
    }
    return [
        device
        for name in order[: order.index(container)]
        if name in ordinary_init
        for device in known.devices.get(name, {}).get(resource, ())
    ]


def checkpoint(pods: Mapping[str, Known]) -> str:
    """Return the text of `kubelet_internal_checkpoint`; the fake needs no checksum."""
    entries = [
        {
            "PodUID": uid,
            "ContainerName": container,
            "ResourceName": resource,
            "DeviceIDs": {"0": ids},
            "AllocResp": base64.b64encode(known.answers[container].SerializeToString()).decode(),
        }
        for uid, known in pods.items()
        for container, held in known.devices.items()
        for resource, ids in held.items()
    ]
    return json.dumps({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}})
