"""Where a question is answered from: a cluster, or a file that ``gpustack snapshot`` wrote.

Both are the same value (``wire.snapshots``), so an answer never depends on where it came from.
"""

import os
import sys
from collections.abc import Iterator
from typing import Any, Final

from gpustack.adapters.kube import KubeClient, KubeError
from gpustack.wire.snapshots import USUAL, Names

DEFAULT_KUBECONFIG: Final = "/etc/kubernetes/admin.conf"
_PATHS: Final = {"Node": "/api/v1/nodes", "Pod": "/api/v1/pods"}
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404


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
