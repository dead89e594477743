"""Where a question is answered from: a cluster, or a file that ``gpustack snapshot`` wrote.

Both are the same value, a Kubernetes ``List`` of nodes and pods as
``kubectl get nodes,pods -A -o json`` gives it, so an answer never depends on where it came from.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpustack.adapters.kube import KubeClient
from gpustack.cli import shape
from gpustack.model.errors import GpustackError

DEFAULT_KUBECONFIG: Final = "/etc/kubernetes/admin.conf"
_PATHS: Final = {"Node": "/api/v1/nodes", "Pod": "/api/v1/pods"}


class SourceError(GpustackError):
    """A snapshot that can't be read; the message names the file, the place and what is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The API's objects, as plain JSON values."""

    nodes: tuple[Mapping[str, Any], ...]
    pods: tuple[Mapping[str, Any], ...]


def kubeconfig_path(chosen: str | None) -> str:
    """Return the kubeconfig to use: the one chosen, $KUBECONFIG, or kubeadm's."""
    return chosen or os.environ.get("KUBECONFIG") or DEFAULT_KUBECONFIG


def read_cluster(kubeconfig: str) -> dict[str, Any]:
    """Return the cluster's nodes and pods as one List.

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
    return {"apiVersion": "v1", "kind": "List", "items": items}


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
        SourceError: an item isn't what the API gives; names the place.
    """
    items = value.get("items")
    if not isinstance(items, list):
        raise SourceError(f"{path}: items: must be an array of nodes and pods")
    by_kind: dict[str, list[Mapping[str, Any]]] = {"Node": [], "Pod": []}
    for index, item in enumerate(items):
        problem = shape.problem(item)
        if problem:
            raise SourceError(f"{path}: items[{index}]{problem}")
        by_kind.get(str(item.get("kind")), []).append(item)
    return Snapshot(nodes=tuple(by_kind["Node"]), pods=tuple(by_kind["Pod"]))
