"""An API server's lists on a real socket, with the discovery that Ansible's modules do."""

import collections.abc
import contextlib
import http.server
import json
import pathlib
import threading
import urllib.parse
from typing import Any

# API version and resource to kind: the lists that preflight and uninstall ask for
KINDS = {
    ("v1", "pods"): "Pod",
    ("v1", "nodes"): "Node",
    ("v1", "events"): "Event",
    ("coordination.k8s.io/v1", "leases"): "Lease",
    ("apps/v1", "daemonsets"): "DaemonSet",
    ("node.k8s.io/v1", "runtimeclasses"): "RuntimeClass",
    ("resource.k8s.io/v1", "deviceclasses"): "DeviceClass",
}
# from Kubernetes 1.34 on: served where there are any
_NEWER = ("deviceclasses",)
_VERBS = ["get", "list"]
# NVIDIA's device plugin
OFFICIAL = "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"


def node(name: str, labels: dict[str, str], **allocatable: str) -> dict[str, Any]:
    """Return a node; `nvidia_gpu` offers `nvidia.com/gpu`."""
    offered = {key.replace("nvidia_", "nvidia.com/"): value for key, value in allocatable.items()}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "8", **offered}},
    }


def daemonset(
    name: str,
    image: str,
    /,
    *,
    on: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return a DaemonSet of one container, `on` nodes with these labels."""
    pod = {"nodeSelector": on or {}, "containers": [{"name": "main", "image": image}]}
    template = {"metadata": {"labels": labels or {}}, "spec": pod}
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"template": template},
    }


def device_class(name: str, resource: str | None) -> dict[str, Any]:
    """Return a DeviceClass, with a resource's name where it serves one."""
    named = {} if resource is None else {"extendedResourceName": resource}
    return {"metadata": {"name": name}, "spec": {"selectors": [], **named}}


ENDLESS = "a value that is nested deeply, and no UTF-8"
_ENDLESS = b'{"f:a":' * 9000 + b'{"f:\xff":{}}' + b"}" * 9000


def documents(objects: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the answer to each path; `objects` has the items of each resource."""
    served = {key: kind for key, kind in KINDS.items() if key[1] not in _NEWER or key[1] in objects}
    groups = sorted({version for version, _ in served if "/" in version})
    answers: dict[str, Any] = {
        "/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.4"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "groups": [_group(version) for version in groups]},
    }
    for version in ["v1", *groups]:
        base = "/api/v1" if version == "v1" else f"/apis/{version}"
        resources = []
        for (of, resource), kind in served.items():
            if of == version:
                namespaced = kind in {"Pod", "DaemonSet", "Event", "Lease"}
                resources.append(
                    {"name": resource, "kind": kind, "namespaced": namespaced, "verbs": _VERBS,
                     "singularName": kind.lower()}
                )  # fmt: skip
                answers[f"{base}/{resource}"] = {
                    "kind": f"{kind}List",
                    "apiVersion": version,
                    "metadata": {"resourceVersion": "1"},
                    "items": objects.get(resource, []),
                }
        answers[base] = {
            "kind": "APIResourceList", "groupVersion": version, "resources": resources
        }  # fmt: skip
    return answers


def _group(version: str) -> dict[str, Any]:
    one = {"groupVersion": version, "version": version.partition("/")[2]}
    return {"name": version.partition("/")[0], "versions": [one], "preferredVersion": one}


@contextlib.contextmanager
def serving(
    folder: pathlib.Path, objects: dict[str, list[dict[str, Any]]]
) -> collections.abc.Iterator[pathlib.Path]:
    """Serve the objects on loopback; yields the kubeconfig of an administrator."""
    answers = documents(objects)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(urllib.parse.urlsplit(self.path).path.rstrip("/"))
            body = json.dumps(answer or {"kind": "Status", "code": 404}).encode()
            body = body.replace(json.dumps(ENDLESS).encode(), _ENDLESS)
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Print no line: pytest's output is for failures."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield write_kubeconfig(folder, server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


def write_kubeconfig(folder: pathlib.Path, port: int) -> pathlib.Path:
    """Write the kubeconfig of a server on a port of this machine."""
    file = folder / "admin.kubeconfig"
    cluster = {"server": f"http://127.0.0.1:{port}"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    file.write_text(json.dumps(document))
    return file
