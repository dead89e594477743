"""Is a snapshot's item shaped like an object of the API, as far as gpustack reads it?

A file may have been written by hand or cut short; what is wrong with it is told by its place, so
that no other module has to expect a number where the API has an object. By hand and not by a JSON
Schema, because a snapshot has ten thousand pods.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

_Kinds = Mapping[str, type[Any]]

_TOP: Final[_Kinds] = {"metadata": dict, "spec": dict, "status": dict, "data": dict}
_METADATA: Final[_Kinds] = {
    "name": str, "namespace": str, "uid": str, "annotations": dict, "labels": dict,
}  # fmt: skip
_SPEC: Final[_Kinds] = {"nodeName": str, "containers": list, "initContainers": list}
_CONTAINER: Final[_Kinds] = {"name": str, "resources": dict}
_WORDS: Final[Mapping[type[Any], str]] = {dict: "an object", list: "an array", str: "a text"}


def problem(item: object) -> str:
    """Return the first thing that is wrong; empty when nothing is.

    It begins with its place in the item, ready to be put behind the item's own place.
    """
    return next(_problems(item), "")


def _problems(item: object) -> Iterator[str]:
    if not isinstance(item, dict):
        yield ": must be an object"
        return
    yield from _fields(".", item, _TOP)
    metadata = item.get("metadata")
    if not isinstance(metadata, dict):
        yield ".metadata: must be an object"
        return
    yield from _fields(".metadata.", metadata, _METADATA)
    if not metadata.get("name"):
        yield ".metadata.name: is missing"
    for field in ("annotations", "labels"):
        for key, value in (metadata.get(field) or {}).items():
            if not isinstance(value, str):
                yield f".metadata.{field}[{key}]: must be a text"
    yield from _spec(item.get("spec") or {})


def _spec(spec: Mapping[str, Any]) -> Iterator[str]:
    yield from _fields(".spec.", spec, _SPEC)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            place = f".spec.{field}[{index}]"
            if not isinstance(container, dict):
                yield f"{place}: must be an object"
                return
            yield from _fields(f"{place}.", container, _CONTAINER)
            resources = container.get("resources") or {}
            yield from _fields(f"{place}.resources.", resources, {"limits": dict})


def _fields(place: str, values: Mapping[str, Any], wanted: _Kinds) -> Iterator[str]:
    for name, kind in wanted.items():
        value = values.get(name)
        if value is not None and not isinstance(value, kind):
            yield f"{place}{name}: must be {_WORDS[kind]}"
