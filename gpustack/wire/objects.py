"""Pods and nodes of the API, decoded to the fields that we read and nothing else.

What comes out are plain dicts in the API's own form, so one set of functions (`pods`, `nodes`,
`annotations`) reads a pod from the API server, from a file and from an old scheduler. What is left
out is never built: of a node's 13 kB (image names, managed fields) some hundred bytes stay.
"""

from collections.abc import Mapping
from typing import Any, Final, TypedDict

import msgspec

from gpustack.model.errors import GpustackError


class BadObject(GpustackError, ValueError):
    """Not an object of the API; the message names the place within it."""


class _Metadata(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str
    deletionTimestamp: str | None
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


class _NodeStatus(TypedDict, total=False):
    allocatable: dict[str, Any] | None
    capacity: dict[str, Any] | None
    conditions: list[_NodeCondition] | None


class _Node(TypedDict, total=False):
    metadata: _Metadata
    spec: _NodeSpec | None
    status: _NodeStatus | None


_POD: Final = msgspec.json.Decoder(_Pod)
_NODE: Final = msgspec.json.Decoder(_Node)


def decode_pod(raw: bytes | msgspec.Raw) -> Mapping[str, Any]:
    """Return what we read of a pod.

    Raises:
        BadObject: not JSON, or a field of another type than the API's.
    """
    return _decode(_POD, raw)


def decode_node(raw: bytes | msgspec.Raw) -> Mapping[str, Any]:
    """Return what we read of a node; errors as in ``decode_pod``."""
    return _decode(_NODE, raw)


def _decode(decoder: Any, raw: bytes | msgspec.Raw) -> Mapping[str, Any]:
    try:
        value: Mapping[str, Any] = decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadObject(f"not an object of the API: {error}") from error
    return value
