"""Where a question is answered from: a cluster, or a file that ``gpustack snapshot`` wrote.

Both are the same value, a Kubernetes ``List`` of nodes, pods and (where there is one) the quota's
ConfigMap as ``kubectl get nodes,pods,configmaps -A -o json`` gives it, so an answer never depends
on where it came from.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpustack.adapters.kube import KubeClient, KubeError
from gpustack.cli import shape
from gpustack.model.errors import GpustackError
from gpustack.wire import quota

DEFAULT_KUBECONFIG: Final = "/etc/kubernetes/admin.conf"
_PATHS: Final = {"Node": "/api/v1/nodes", "Pod": "/api/v1/pods"}
_QUOTA_PATH: Final = (
    f"/api/v1/namespaces/{quota.CONFIG_MAP_NAMESPACE}/configmaps/{quota.CONFIG_MAP_NAME}"
)
_NO_QUOTA: Final = (403, 404)  # somebody who may not read it is answered as if there were none


class SourceError(GpustackError):
    """A snapshot that can't be read; the message names the file, the place and what is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The API's objects, as plain JSON values of the shape that gpustack reads.

    Attributes:
        nodes: in the order of the List.
        pods: in the order of the List.
        quota: the quota's ConfigMap; None where there is none.
        origin: the file, or the kubeconfig of the cluster.
        items: all of the List, to tell places by.
    """

    nodes: tuple[Mapping[str, Any], ...]
    pods: tuple[Mapping[str, Any], ...]
    quota: Mapping[str, Any] | None = None
    origin: str = ""
    items: tuple[Mapping[str, Any], ...] = ()

    def error(self, item: Mapping[str, Any], problem: object) -> SourceError:
        """Return the error of one object, with the file and its place in the List."""
        metadata = item["metadata"]
        index = next(at for at, each in enumerate(self.items) if each is item)
        namespace = metadata.get("namespace")
        name = f"{namespace}/{metadata['name']}" if namespace else metadata["name"]
        kind = str(item.get("kind")).lower()
        return SourceError(f"{self.origin}: items[{index}] ({kind} {name}): {problem}")


def kubeconfig_path(chosen: str | None) -> str:
    """Return the kubeconfig to use: the one chosen, $KUBECONFIG, or kubeadm's."""
    return chosen or os.environ.get("KUBECONFIG") or DEFAULT_KUBECONFIG


def read_cluster(kubeconfig: str) -> dict[str, Any]:
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
    items.extend(_read_quota(client))
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _read_quota(client: KubeClient) -> Iterator[dict[str, Any]]:
    try:
        yield {"apiVersion": "v1", "kind": "ConfigMap", **client.get(_QUOTA_PATH)}
    except KubeError as error:
        if error.status not in _NO_QUOTA:
            raise


def read_file(path: str) -> dict[str, Any]:
    """Return the List in a file.

    Raises:
        SourceError: no such file, not JSON, or not a List.
    """
    try:
        value = json.loads(Path(path).read_text())
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise SourceError(f"{path}: is not JSON: {error}") from error
    except RecursionError as error:
        raise SourceError(f"{path}: is nested too deeply") from error
    if not isinstance(value, dict) or value.get("kind") != "List":
        raise SourceError(f'{path}: kind: must be "List", as gpustack snapshot writes it')
    return value


def parse(path: str, value: Mapping[str, Any]) -> Snapshot:
    """Sort a List's items by kind; other kinds are passed over.

    Raises:
        SourceError: an item isn't shaped like an object of the API; names the place.
    """
    items = value.get("items")
    if not isinstance(items, list):
        raise SourceError(f"{path}: items: must be an array of nodes and pods")
    by_kind: dict[str, list[Mapping[str, Any]]] = {"Node": [], "Pod": [], "ConfigMap": []}
    for index, item in enumerate(items):
        problem = shape.problem(item)
        if problem:
            raise SourceError(f"{path}: items[{index}]{problem}")
        by_kind.get(str(item.get("kind")), []).append(item)
    return Snapshot(
        nodes=tuple(by_kind["Node"]),
        pods=tuple(by_kind["Pod"]),
        quota=next(filter(_is_quota, by_kind["ConfigMap"]), None),
        origin=path,
        items=tuple(items),
    )


def _is_quota(config_map: Mapping[str, Any]) -> bool:
    metadata = config_map["metadata"]
    wanted = (quota.CONFIG_MAP_NAMESPACE, quota.CONFIG_MAP_NAME)
    return (metadata.get("namespace"), metadata["name"]) == wanted
