"""A pod in a file: a Pod, or anything with a pod template, in YAML or JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from gpustack.model.errors import GpustackError

_DEEPEST: Final = 32  # a template lies at most a few levels down; deeper files are no objects


class BadWorkload(GpustackError, ValueError):
    """A file without a pod, or with several; the message names file, line and field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The pod of a file.

    Attributes:
        pod: as the API's JSON has it, with the name and namespace it would get.
        field: where it stands in the file: empty for a Pod, `spec.template` in a Deployment.
    """

    pod: Mapping[str, Any]
    field: str

    def place(self, field: str) -> str:
        """Return a field of the pod as a field of the file."""
        return f"{self.field}.{field}" if self.field else field


def parse_workload(path: str, text: str) -> Workload:
    """Read the one pod of a file; JSON is YAML too.

    A template takes the name and the namespace of the object around it.

    Raises:
        BadWorkload: not YAML, no pod, several pods, or containers that are no objects.
    """
    try:
        documents = [each for each in yaml.safe_load_all(text) if each is not None]
    except yaml.MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        raise BadWorkload(f"{path}:{line}: is not YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise BadWorkload(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    found = [(document, *each) for document in documents for each in _templates(document)]
    if not found:
        raise BadWorkload(f"{path}: spec.containers: is missing, and there is no pod template")
    if len(found) > 1:
        places = ", ".join(field or "a Pod" for _, field, _ in found[:4])
        raise BadWorkload(f"{path}: {len(found)} pods ({places}); leave one in the file")
    document, field, template = found[0]
    pod = _named(document, template)
    _check(path, field, pod)
    return Workload(pod=pod, field=field)


def _templates(value: object, field: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield whatever has `spec.containers`, with its field; the outermost ones only."""
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        spec = value.get("spec")
        if isinstance(spec, dict) and "containers" in spec:
            yield field, value
            return
        for key, each in value.items():
            yield from _templates(each, f"{field}.{key}" if field else str(key), depth + 1)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _templates(each, f"{field}[{index}]", depth + 1)


def _named(document: Any, template: Mapping[str, Any]) -> dict[str, Any]:
    own, outer = template.get("metadata"), document.get("metadata")
    own = own if isinstance(own, dict) else {}
    outer = outer if isinstance(outer, dict) else {}
    name = own.get("name") or outer.get("name") or own.get("generateName") or "pod"
    namespace = own.get("namespace") or outer.get("namespace") or "default"
    metadata = {**own, "name": str(name).rstrip("-"), "namespace": str(namespace)}
    return {**template, "metadata": metadata}


def _check(path: str, field: str, pod: Mapping[str, Any]) -> None:
    before = f"{field}." if field else ""
    annotations = pod["metadata"].get("annotations") or {}
    if not isinstance(annotations, dict):
        raise BadWorkload(f"{path}: {before}metadata.annotations: must be an object")
    for key, value in annotations.items():
        if not isinstance(value, str):
            place = f"{before}metadata.annotations[{key}]"
            raise BadWorkload(f"{path}: {place}: must be a text; put {value!r} in quotes")
    for name in ("containers", "initContainers"):
        _check_containers(f"{path}: {before}spec.{name}", pod["spec"].get(name) or [])


def _check_containers(place: str, containers: object) -> None:
    if not isinstance(containers, list):
        raise BadWorkload(f"{place}: must be an array")
    for index, container in enumerate(containers):
        if not isinstance(container, dict):
            raise BadWorkload(f"{place}[{index}]: must be an object")
        resources = container.get("resources") or {}
        if not isinstance(resources, dict):
            raise BadWorkload(f"{place}[{index}].resources: must be an object")
        if not isinstance(resources.get("limits") or {}, dict):
            raise BadWorkload(f"{place}[{index}].resources.limits: must be an object")
