"""A cluster in a file: a Kubernetes ``List`` of nodes, pods and the quota's ConfigMap.

``gpustack snapshot`` writes it, and so does ``kubectl get nodes,pods,configmaps -A -o json``. The
command line and the extender read it alike: what they take from it was checked here, once, and
every error names the file and the place in it.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpustack.wire import quota
from gpustack.wire.files.source import SourceError, json_of, title
from gpustack.wire.kube import object_validation
from gpustack.wire.nodes import LABELS, NodeLabels


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Names that an operator may change, as in the extender's configuration.

    Attributes:
        quota: namespace and name of the quota's ConfigMap.
        labels: which say a node's pool, and its model where it doesn't publish its cards.
    """

    quota: tuple[str, str] = (quota.CONFIG_MAP_NAMESPACE, quota.CONFIG_MAP_NAME)
    labels: NodeLabels = LABELS


USUAL: Final = Names()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The API's objects, as plain JSON values of the shape that gpustack reads.

    Attributes:
        nodes: in the order of the List.
        pods: in the order of the List.
        quota: the quota's ConfigMap; None where there is none.
        origin: the file, or the kubeconfig and its context.
        items: all of the List, to tell places by.
        names: the operator's names of the quota's ConfigMap and of the labels.
        namespace: the namespace of a pod that names none.
    """

    nodes: tuple[Mapping[str, Any], ...]
    pods: tuple[Mapping[str, Any], ...]
    quota: Mapping[str, Any] | None = None
    origin: str = ""
    items: tuple[Mapping[str, Any], ...] = ()
    names: Names = USUAL
    namespace: str = "default"

    def error(self, item: Mapping[str, Any], problem: object) -> SourceError:
        """Return the error of one object, with the file and its place in the List."""
        index = next(at for at, each in enumerate(self.items) if each is item)
        return SourceError(f"{self.origin}: items[{index}] ({_titled(item)}): {problem}")


def read_file(path: str) -> dict[str, Any]:
    """Return the List in a file.

    Raises:
        SourceError: no such file, not JSON, or not a List.
    """
    value = json_of(path)
    if not isinstance(value, dict) or value.get("kind") != "List":
        raise SourceError(f'{title(path)}: kind: must be "List", as gpustack snapshot writes it')
    return value


def parse(path: str, value: Mapping[str, Any], names: Names = USUAL) -> Snapshot:
    """Sort a List's items by kind; other kinds are passed over.

    Raises:
        SourceError: an item isn't shaped like an object of the API, or stands twice; names the
            place.
    """
    items = value.get("items")
    if not isinstance(items, list):
        raise SourceError(f"{path}: items: must be an array of nodes and pods")
    by_kind: dict[str, list[Mapping[str, Any]]] = {"Node": [], "Pod": [], "ConfigMap": []}
    first: dict[str, int] = {}
    for index, item in enumerate(items):
        if _of_another_kind(item, by_kind):
            continue
        problem = object_validation.problem(item)
        if problem:
            raise SourceError(f"{path}: items[{index}]{problem}")
        if item.get("kind") is None:
            raise SourceError(f"{path}: items[{index}].kind: is missing")
        by_kind[item["kind"]].append(item)
        named = _titled(item)
        if named in first:
            raise SourceError(f"{path}: items[{index}] ({named}): is items[{first[named]}] again")
        first[named] = index
    return Snapshot(
        nodes=tuple(by_kind["Node"]),
        pods=tuple(by_kind["Pod"]),
        quota=next((each for each in by_kind["ConfigMap"] if _named(each) == names.quota), None),
        origin=path,
        items=tuple(items),
        names=names,
    )


def _of_another_kind(item: object, known: Container[str]) -> bool:
    """Say whether an item is an object that gpustack doesn't read, whatever shape it has."""
    kind = item.get("kind") if isinstance(item, dict) else None
    return isinstance(kind, str) and kind not in known


def _titled(item: Mapping[str, Any]) -> str:
    """Return an object's kind and name as people write them: `pod default/web`."""
    metadata = item["metadata"]
    namespace = metadata.get("namespace")
    name = f"{namespace}/{metadata['name']}" if namespace else metadata["name"]
    return f"{str(item.get('kind')).lower()} {name}"


def _named(item: Mapping[str, Any]) -> tuple[object, object]:
    metadata = item["metadata"]
    return metadata.get("namespace"), metadata["name"]
