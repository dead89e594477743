"""Whether an object of a snapshot has the shape that the API gives it.

A file can hold anything. This module checks, once, the fields of nodes, pods and the quota that
the other modules read, so that an error names the wrong place.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

_KINDS: Final[Mapping[type, str]] = MappingProxyType(
    {dict: "an object", list: "an array", str: "a text", bool: "true or false"}
)

_OBJECT: Final[Mapping[str, type]] = MappingProxyType(
    {
        "kind": str,
        "metadata": dict,
        "metadata.name": str,
        "metadata.namespace": str,
        "metadata.uid": str,
        "metadata.annotations": dict,
        "metadata.labels": dict,
        "metadata.ownerReferences": list,
        "spec": dict,
        "spec.nodeName": str,
        "spec.unschedulable": bool,
        "spec.taints": list,
        "spec.containers": list,
        "spec.initContainers": list,
        "data": dict,
        "status": dict,
        "status.phase": str,
        "status.conditions": list,
        "status.addresses": list,
        "status.allocatable": dict,
        "status.capacity": dict,
    }
)

_CONTAINER: Final[Mapping[str, type]] = MappingProxyType(
    {"name": str, "restartPolicy": str, "resources": dict, "resources.limits": dict}
)

_LISTED: Final[Mapping[str, Mapping[str, type]]] = MappingProxyType(
    {
        "spec.containers": _CONTAINER,
        "spec.initContainers": _CONTAINER,
        "spec.taints": {"key": str, "value": str, "effect": str},
        "status.conditions": {"type": str, "status": str},
        "status.addresses": {"type": str, "address": str},
        "metadata.ownerReferences": {"kind": str},
    }
)
"""What the members of arrays must be."""


def problem(item: object) -> str:
    """Return the first wrong place of a node or pod, and what it must be; empty if none.

    The place begins with what separates it from its parent's: `.spec: must be an object`.
    """
    return next(_problems(item), "")


def _problems(item: object) -> Iterator[str]:
    yield from _mismatches(item, _OBJECT)
    if not _at(item, "metadata.name"):
        yield ".metadata.name: is missing"
    for field in ("metadata.annotations", "metadata.labels"):
        for key, value in (_at(item, field) or {}).items():
            if not isinstance(value, str):
                yield f".{field}[{key}]: must be a text"
    for field, shape in _LISTED.items():
        for index, each in enumerate(_at(item, field) or ()):
            for found in _mismatches(each, shape):
                yield f".{field}[{index}]{found}"


def _mismatches(item: object, shape: Mapping[str, type]) -> Iterator[str]:
    """Yield each place whose value is of another kind; parents stand before their children."""
    if not isinstance(item, dict):
        yield ": must be an object"
        return
    for path, kind in shape.items():
        value = _at(item, path)
        if value is not None and not isinstance(value, kind):
            yield f".{path}: must be {_KINDS[kind]}"


def _at(item: Any, path: str) -> Any:
    """Return the value at a path, None where it or one of its parents is missing."""
    for name in path.split("."):
        if item is None:
            return None
        item = item.get(name)
    return item
