"""Pods and nodes of the API, decoded to the fields that we read and nothing else.

The result is plain dicts in the API's own form, so one set of functions (`pods`, `nodes`,
`annotations`) reads a pod from the API server, from a file and from an old scheduler. Other fields
are never built: of a node's 13 kB (image names, managed fields) some hundred bytes stay.
"""

import functools
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, Final, TypedDict

import msgspec

from gpustack.model.errors import GpustackError
from gpustack.wire.keys import Keys
from gpustack.wire.kube import managed_fields
from gpustack.wire.pods import CONFIG_HASH, MIRROR, finished, is_static
from gpustack.wire.user_keys import names_of


class BadObject(GpustackError, ValueError):
    """Not an object of the API; the message names the place within it."""


class _Owner(TypedDict, total=False):
    kind: str
    name: str
    controller: bool | None


class _Metadata(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str | None
    ownerReferences: list[_Owner] | None
    deletionTimestamp: str | None
    deletionGracePeriodSeconds: int | None
    labels: dict[str, str] | None
    annotations: dict[str, str] | None


class _Resources(TypedDict, total=False):
    limits: dict[str, Any] | None


class _Container(TypedDict, total=False):
    name: str
    restartPolicy: str | None
    resources: _Resources | None


class _PodSpec(TypedDict, total=False):
    containers: list[_Container] | None
    initContainers: list[_Container] | None
    nodeName: str | None
    priority: int | None
    terminationGracePeriodSeconds: int | None
    schedulingGates: list[dict[str, Any]] | None
    nodeSelector: dict[str, Any] | None
    affinity: dict[str, Any] | None
    tolerations: list[dict[str, Any]] | None


class _Condition(TypedDict, total=False):
    type: str
    status: str
    reason: str | None
    message: str | None
    lastTransitionTime: str | None


class _PodStatus(TypedDict, total=False):
    phase: str | None
    nominatedNodeName: str | None
    conditions: list[_Condition] | None


class _Pod(TypedDict, total=False):
    metadata: _Metadata
    spec: _PodSpec | None
    status: _PodStatus | None


class _Taint(TypedDict, total=False):
    key: str | None
    value: str | None
    effect: str | None


class _NodeSpec(TypedDict, total=False):
    unschedulable: bool | None
    taints: list[_Taint] | None


class _NodeCondition(TypedDict, total=False):
    type: str | None
    status: str | None


class _NodeAddress(TypedDict, total=False):
    type: str | None
    address: str | None


class _NodeStatus(TypedDict, total=False):
    addresses: list[_NodeAddress] | None
    allocatable: dict[str, Any] | None
    capacity: dict[str, Any] | None
    conditions: list[_NodeCondition] | None


class _Node(TypedDict, total=False):
    metadata: _Metadata
    spec: _NodeSpec | None
    status: _NodeStatus | None


class _HostMetadata(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str | None
    deletionTimestamp: str | None
    annotations: dict[str, str] | None


class _Mount(TypedDict, total=False):
    mountPath: str


class _Device(TypedDict, total=False):
    devicePath: str


class _HostContainer(_Container, total=False):
    volumeMounts: list[_Mount] | None
    volumeDevices: list[_Device] | None
    terminationMessagePath: str | None


class _HostPodSpec(TypedDict, total=False):
    containers: list[_HostContainer]
    initContainers: list[_HostContainer]
    nodeName: str | None


class _ContainerStatus(TypedDict, total=False):
    name: str
    state: dict[str, Any] | None


class _HostPodStatus(TypedDict, total=False):
    phase: str | None
    containerStatuses: list[_ContainerStatus] | None
    initContainerStatuses: list[_ContainerStatus] | None


class _HostPod(TypedDict, total=False):
    metadata: _HostMetadata
    spec: _HostPodSpec
    status: _HostPodStatus | None


_STATIC: Final = (MIRROR, CONFIG_HASH)
_MOUNTED: Final = (("volumeMounts", "mountPath"), ("volumeDevices", "devicePath"))
_MESSAGE: Final = "terminationMessagePath"  # a file of the kubelet's is mounted there
_POD: Final = msgspec.json.Decoder(_Pod)
_HOST_POD: Final = msgspec.json.Decoder(_HostPod)
_NODE: Final = msgspec.json.Decoder(_Node)


def decode_pod(raw: bytes | msgspec.Raw) -> Mapping[str, Any]:
    """Return what we read of a pod.

    Raises:
        BadObject: not JSON, or a field of another type than the API's.
    """
    return _decode(_POD, raw)


def decode_host_pod(
    keys: Keys, hides: Callable[[str], Hashable | None], raw: bytes | msgspec.Raw
) -> Mapping[str, Any]:
    """Return what the agent reads of a pod on its node.

    Any tenant may bring a hundred pods of a megabyte each to a node: as Python's objects
    each would take seven times as much. Ended pods stay in the API server's list.

    Args:
        keys: the domain's names.
        hides: how what is mounted at a path hides what the agent mounts, None where it doesn't;
            the first mount of each way is kept.
        raw: the API's JSON.

    Raises:
        BadObject: as ``decode_pod``.
    """
    pod = _decode(_HOST_POD, raw)
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    asks = any([_keep_what_is_asked(keys, hides, container) for container in containers])
    if not asks:
        return _stranger(pod)
    if _is_rejected_static(pod):
        pod["status"].clear()  # the next kubelet admits it again
    if finished(pod):
        return _stranger(pod, _STATIC)  # a static pod's UID stands there
    if found := metadata.get("annotations"):
        metadata["annotations"] = {
            key: value for key, value in found.items() if _is_read(keys, key)
        }
    return pod


def _is_rejected_static(pod: Mapping[str, Any]) -> bool:
    status = pod.get("status") or {}
    ran = status.get("containerStatuses") or status.get("initContainerStatuses")
    return is_static(pod) and status.get("phase") == "Failed" and not ran


def _keep_what_is_asked(
    keys: Keys, hides: Callable[[str], Hashable | None], container: dict[str, Any]
) -> bool:
    """Drop a container's unread fields; returns whether it asks for one of our resources."""
    limits = (container.get("resources") or {}).pop("limits", None) or {}
    names = keys.vcuda_core, keys.vcuda_memory
    asked = {name: limits[name] for name in names if name in limits}
    if asked:
        container["resources"]["limits"] = asked
    message = container.pop(_MESSAGE, None) or ""
    if asked and message and hides(message) is not None:
        container[_MESSAGE] = message
    for field, path in _MOUNTED:
        mounted = container.pop(field, None) or ()
        kept: dict[Hashable, Any] = {}  # one is enough to refuse it; a pod may have 80 000 others
        for each in mounted if asked else ():
            if (how := hides(each.get(path, ""))) is not None:
                kept.setdefault(how, each)
        if kept:
            container[field] = list(kept.values())
    return bool(asked)


def _stranger(pod: Mapping[str, Any], read: Collection[str] = ()) -> Mapping[str, Any]:
    """Return a pod that takes none of our devices: its name, its node, and whether it has ended.

    ``read`` are the annotations that are kept.
    """
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    kept: dict[str, Any] = {
        "metadata": {key: each for key, each in metadata.items() if key != "annotations"}
    }
    annotations = metadata.get("annotations") or {}
    if found := {key: annotations[key] for key in read if key in annotations}:
        kept["metadata"]["annotations"] = found
    if node := spec.get("nodeName"):
        kept["spec"] = {"nodeName": node}
    if phase := status.get("phase"):
        kept["status"] = {"phase": phase}
    return kept


def _is_read(keys: Keys, key: str) -> bool:
    return key in _annotations_read(keys) or key.startswith((keys.idx_prefix, keys.uuid_prefix))


@functools.lru_cache(maxsize=8)
def _annotations_read(keys: Keys) -> frozenset[str]:
    decision = keys.predicate_time, keys.predicate_node, keys.gpu_assigned
    return frozenset((*decision, *names_of(keys), *_STATIC))


def decode_node(raw: bytes | msgspec.Raw) -> Mapping[str, Any]:
    """Return what we read of a node; errors as in ``decode_pod``."""
    return _decode(_NODE, raw)


def _decode(decoder: Any, raw: bytes | msgspec.Raw) -> Mapping[str, Any]:
    try:
        value: Mapping[str, Any] = managed_fields.decode(decoder, raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadObject(f"not an object of the API: {error}") from error
    return value
