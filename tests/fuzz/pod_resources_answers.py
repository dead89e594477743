"""The kubelet's PodResources answers, by a real socket: `l` before one of List, `g` of Get."""

from collections.abc import Iterable
from typing import Final

from gpustack.adapters.podresources import podresources_pb2 as pb
from gpustack.adapters.podresources.client import (
    PodDevices,
    PodResourcesClient,
    PodResourcesUnavailable,
)
from tests.fuzz.harness import Target
from tests.fuzz.raw_server import RawServer

_SERVER: Final = RawServer("v1.PodResourcesLister", "List", "Get")
_CLIENT: Final = PodResourcesClient(_SERVER.socket)


def check(data: bytes) -> None:
    one, _SERVER.answer = data[:1] == b"g", data[1:]
    try:
        found = _read(one)
    except PodResourcesUnavailable:
        return
    for pod in found:
        for name in pod.containers:
            assert pod.ids(name, "tencent.com/vcuda-core") is not None
    messages = [_message(each) for each in found]
    _SERVER.answer = (
        pb.GetPodResourcesResponse(pod_resources=messages[0])
        if one
        else pb.ListPodResourcesResponse(pod_resources=messages)
    ).SerializeToString()
    assert _read(one) == found


def _read(one: bool) -> tuple[PodDevices, ...]:
    if not one:
        return _CLIENT.list()
    found = _CLIENT.get("a", "p")
    assert found is not None
    return (found,)


def _message(pod: PodDevices) -> pb.PodResources:
    return pb.PodResources(
        name=pod.name,
        namespace=pod.namespace,
        containers=[
            pb.ContainerResources(
                name=name,
                devices=[_devices(resource, ids) for resource, ids in held.items()],
            )
            for name, held in pod.containers.items()
        ],
    )


def _devices(resource: str, ids: Iterable[str]) -> pb.ContainerDevices:
    return pb.ContainerDevices(resource_name=resource, device_ids=sorted(ids))


def _seeds() -> list[bytes]:
    held = {"tencent.com/vcuda-core": frozenset({"0-1", "0-2"})}
    pod = _message(PodDevices(namespace="a", name="p", containers={"main": held, "idle": {}}))
    listed = pb.ListPodResourcesResponse(pod_resources=[pod, pod]).SerializeToString()
    return [b"l" + listed, b"g" + pb.GetPodResourcesResponse(pod_resources=pod).SerializeToString()]


TARGET: Final = Target(
    check=check,
    seeds=_seeds(),
    words=["tencent.com/vcuda-core", "tencent.com/vcuda-memory", "main", "0-1"],
    limit_bytes=2 << 20,  # 16 cards of 192 GiB, all shared out; time grows with it
    cpu_seconds=8.0,
)
