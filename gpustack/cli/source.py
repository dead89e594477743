"""Where a question is answered from: a cluster, or a file that ``gpustack snapshot`` wrote.

Both are the same value, a Kubernetes ``List`` of nodes, pods and (where there is one) the quota's
ConfigMap as ``kubectl get nodes,pods,configmaps -A -o json`` gives it, so an answer never depends
on where it came from.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpustack.adapters.kube import KubeClient, KubeError
from gpustack.cli import shape
from gpustack.cli.files import SourceError, json_of, title
from gpustack.wire import quota
from gpustack.wire.nodes import LABELS, NodeLabels

__all__ = ["DEFAULT_KUBECONFIG", "Snapshot", "SourceError"]

DEFAULT_KUBECONFIG: Final = "/etc/kubernetes/admin.conf"
_PATHS: Final = {"Node": "/api/v1/nodes", "Pod": "/api/v1/pods"}
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What an operator may have named otherwise, as the extender's configuration has it too.

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
        origin: the file, or the kubeconfig of the cluster.
        items: all of the List, to tell places by.
        names: what things are called in it.
    """

    nodes: tuple[Mapping[str, Any], ...]
    pods: tuple[Mapping[str, Any], ...]
    quota: Mapping[str, Any] | None = None
    origin: str = ""
    items: tuple[Mapping[str, Any], ...] = ()
    names: Names = USUAL

    def error(self, item: Mapping[str, Any], problem: object) -> SourceError:
        """Return the error of one object, with the file and its place in the List."""
        index = next(at for at, each in enumerate(self.items) if each is item)
        return SourceError(f"{self.origin}: items[{index}] ({_titled(item)}): {problem}")


def kubeconfig_path(chosen: str | None) -> str:
    """Return the kubeconfig to use: the one chosen, $KUBECONFIG, or kubeadm's."""
    return chosen or os.environ.get("KUBECONFIG") or DEFAULT_KUBECONFIG


def read_cluster(kubeconfig: str, names: Names = USUAL) -> dict[str, Any]:
    """Return the cluster's nodes, pods and quota as one List.

    Raises:
        KubeConfigError: the kubeconfig can't be used.
        KubeError, KubeUnavailable: the API server refused or didn't answer.
    """
    client = KubeClient.from_kubeconfig(kubeconfig)
    items = [
        {"apiVersion": "v1", "kind": kind, **item}
        for kind, path in _PATHS.items()
        for item in client.get(path).get("items") or ()
    ]
    items.extend(_read_quota(client, *names.quota))
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _read_quota(client: KubeClient, namespace: str, name: str) -> Iterator[dict[str, Any]]:
    """Yield the quota where there is one; who may not read it is answered as if there were none."""
    try:
        body = client.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    except KubeError as error:
        if error.status == _FORBIDDEN:
            told = f"may not read the quota, configmap {namespace}/{name}: it is left out"
            print(f"gpustack: {told}", file=sys.stderr)
        elif error.status != _NOT_FOUND:
            raise
        return
    yield {"apiVersion": "v1", "kind": "ConfigMap", **body}


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
        problem = shape.problem(item)
        if problem:
            raise SourceError(f"{path}: items[{index}]{problem}")
        found = by_kind.get(str(item.get("kind")))
        if found is None:
            continue
        found.append(item)
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


def _titled(item: Mapping[str, Any]) -> str:
    """Return an object's kind and name as people write them: `pod default/web`."""
    metadata = item["metadata"]
    namespace = metadata.get("namespace")
    name = f"{namespace}/{metadata['name']}" if namespace else metadata["name"]
    return f"{str(item.get('kind')).lower()} {name}"


def _named(item: Mapping[str, Any]) -> tuple[object, object]:
    metadata = item["metadata"]
    return metadata.get("namespace"), metadata["name"]
