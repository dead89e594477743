"""The pods of a file: Pods, and the templates of objects that have one."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpustack.model.errors import GpustackError
from gpustack.wire.files.documents import Document, documents

_DEEPEST: Final = 32  # a template lies at most a few levels down; deeper files are no objects
_MOST: Final = 256  # templates of one file; one with more is a cluster, not a question


class BadPodTemplate(GpustackError, ValueError):
    """A file without a pod, or with a broken one; the message names file, line and field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """A pod of a file.

    Attributes:
        pod: as the API's JSON has it, with the name and namespace it would get.
        field: where it stands in its document: empty for a Pod, `spec.template` in a Deployment.
        document: where it was found.
    """

    pod: Mapping[str, Any]
    field: str
    document: Document

    def place(self, field: str) -> str:
        """Return a field of the pod as file, line and field of the file."""
        return self.document.place(f"{self.field}.{field}" if self.field else field)

    @property
    def title(self) -> str:
        """How messages name it: `namespace/name`."""
        metadata = self.pod["metadata"]
        return f"{metadata['namespace']}/{metadata['name']}"


def parse_pod_templates(path: str, text: str) -> list[PodTemplate]:
    """Read all pods of a file, in their order.

    A template takes the name and the namespace of the nearest object around it.

    Raises:
        BadDocument: neither YAML nor JSON.
        BadPodTemplate: no pod, or one with malformed containers or annotations.
    """
    found = []
    for document in documents(path, text):
        templates = _templates(document.value, _Around(), set())
        for field, around, template in itertools.islice(templates, _MOST):
            pod = _named(around, template)
            workload = PodTemplate(pod=pod, field=field, document=document)
            _check(workload)
            found.append(workload)
    if not found:
        raise BadPodTemplate(f"{path}: spec.containers: is missing, and there is no pod template")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """A value's surroundings: its field, its depth, and the nearest object with a name."""

    field: str = ""
    depth: int = 0
    metadata: Mapping[str, Any] | None = None


def _templates(
    value: object, around: _Around, barren: set[int]
) -> Iterator[tuple[str, _Around, Mapping[str, Any]]]:
    """Yield the outermost values that have `spec.containers`.

    `barren` are the identities of values without any: YAML's aliases can make one value stand in a
    million places.
    """
    if around.depth > _DEEPEST or not isinstance(value, dict | list) or id(value) in barren:
        return
    metadata = around.metadata
    inner: list[tuple[str, object]]
    if isinstance(value, dict):
        spec, own = value.get("spec"), value.get("metadata")
        if isinstance(spec, dict) and "containers" in spec:
            yield around.field, around, value
            return
        metadata = own if isinstance(own, dict) and own.get("name") else metadata
        separator = "." if around.field else ""
        inner = [(f"{around.field}{separator}{key}", each) for key, each in value.items()]
    else:
        inner = [(f"{around.field}[{index}]", each) for index, each in enumerate(value)]
    fruitful = False
    for field, each in inner:
        below = _Around(field=field, depth=around.depth + 1, metadata=metadata)
        for found in _templates(each, below, barren):
            fruitful = True
            yield found
    if not fruitful:
        barren.add(id(value))


def _named(around: _Around, template: Mapping[str, Any]) -> dict[str, Any]:
    own, outer = template.get("metadata"), around.metadata or {}
    own = own if isinstance(own, dict) else {}
    name = own.get("name") or outer.get("name") or own.get("generateName") or "pod"
    namespace = own.get("namespace") or outer.get("namespace") or "default"
    metadata = {**own, "name": str(name).rstrip("-"), "namespace": str(namespace)}
    return {**template, "metadata": metadata}


def _check(workload: PodTemplate) -> None:
    annotations = workload.pod["metadata"].get("annotations") or {}
    if not isinstance(annotations, dict):
        raise _bad(workload, "metadata.annotations", "must be an object")
    for key, value in annotations.items():
        if not isinstance(value, str):
            problem = f"must be a text; put {value!r} in quotes"
            raise _bad(workload, f"metadata.annotations[{key}]", problem)
    for name in ("containers", "initContainers"):
        _check_containers(workload, f"spec.{name}", workload.pod["spec"].get(name) or [])


def _check_containers(workload: PodTemplate, place: str, containers: object) -> None:
    if not isinstance(containers, list):
        raise _bad(workload, place, "must be an array")
    for index, container in enumerate(containers):
        at = f"{place}[{index}]"
        if not isinstance(container, dict):
            raise _bad(workload, at, "must be an object")
        for name in ("name", "restartPolicy"):
            if not isinstance(container.get(name, ""), str):
                raise _bad(workload, f"{at}.{name}", "must be a text")
        resources = container.get("resources") or {}
        if not isinstance(resources, dict):
            raise _bad(workload, f"{at}.resources", "must be an object")
        if not isinstance(resources.get("limits") or {}, dict):
            raise _bad(workload, f"{at}.resources.limits", "must be an object")


def _bad(workload: PodTemplate, field: str, problem: str) -> BadPodTemplate:
    return BadPodTemplate(f"{workload.place(field)}: {problem}")
