"""The source of an answer: a cluster, or a file that ``gpustack snapshot`` wrote.

Both are the same value (``wire.snapshots``), so an answer never depends on where it came from.
"""

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gpustack.adapters.kube import (
    KubeClient,
    KubeConfigMissing,
    KubeError,
    KubeUnavailable,
    kubeconfig,
)
from gpustack.adapters.kube.kubeconfig import Context
from gpustack.cli.output import printing
from gpustack.wire.files.snapshots import USUAL, Names

_HOME: Final = "~/.kube/config"
_ADMIN: Final = "/etc/kubernetes/admin.conf"  # kubeadm's, on a control-plane host
_PATHS: Final = {"Node": "/api/v1/nodes", "Pod": "/api/v1/pods"}
_FORBIDDEN: Final = 403
NOT_FOUND: Final = 404


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the cluster to ask, as kubectl takes it."""
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help=f"default: the files of $KUBECONFIG, or else {_HOME}, or else {_ADMIN}",
    )
    parser.add_argument(
        "--context", metavar="NAME", help="of the kubeconfig; default: its current-context"
    )


def find(chosen: argparse.Namespace) -> Context:
    """Return the cluster that the options of ``add_options`` name, and our identity there.

    Raises:
        KubeConfigError: there is none, or it can't be used.
    """
    if chosen.kubeconfig:
        return kubeconfig.read([Path(chosen.kubeconfig)], chosen.context)
    named = [Path(each) for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    if named:
        return kubeconfig.read(list(dict.fromkeys(named)), chosen.context)
    for path in (Path(_HOME).expanduser(), Path(_ADMIN)):
        try:
            return kubeconfig.read([path], chosen.context)
        except KubeConfigMissing:
            continue
    raise KubeConfigMissing(
        f"no kubeconfig: there is neither {_HOME} nor {_ADMIN}; name one with --kubeconfig or "
        "$KUBECONFIG"
    )


def read_cluster(context: Context, names: Names = USUAL) -> dict[str, Any]:
    """Return the cluster's nodes, pods and quota as one List.

    Raises:
        KubeConfigError: the kubeconfig can't be used.
        KubeError, KubeUnavailable: the API server refused or didn't answer.
    """
    client = KubeClient.of_context(context)
    items = [item for kind in _PATHS for item in read_items(client, kind)]
    items.extend(_read_quota(client, *names.quota))
    return {"apiVersion": "v1", "kind": "List", "items": items}


def read_version(client: KubeClient) -> str:
    """Return the API server's version, as it says it.

    Raises:
        KubeError, KubeUnavailable: it refused, didn't answer, or is no API server.
    """
    raw = client.get_raw("/version")
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("gitVersion"), str):
        raise KubeUnavailable("/version has no gitVersion: the answer is not an API server's")
    return str(found["gitVersion"])


def read_items(client: KubeClient, kind: str) -> Iterator[dict[str, Any]]:
    """Yield the cluster's nodes or pods, as a List has them; errors as in `read_cluster`."""
    for item in client.get(_PATHS[kind]).get("items") or ():
        yield {"apiVersion": "v1", "kind": kind, **item, "metadata": _read_metadata(item)}


def _read_metadata(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the metadata without `managedFields`, which may be too deep for a writer of JSON."""
    return {name: each for name, each in item["metadata"].items() if name != "managedFields"}


def _read_quota(client: KubeClient, namespace: str, name: str) -> Iterator[dict[str, Any]]:
    """Yield the quota where there is one; an identity without the right to it gets none."""
    try:
        body = client.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    except KubeError as error:
        if error.status == _FORBIDDEN:
            told = f"may not read the quota, configmap {namespace}/{name}: it is left out"
            printing.tell(told)
        elif error.status != NOT_FOUND:
            raise
        return
    yield {"apiVersion": "v1", "kind": "ConfigMap", **body}
