"""An API server's single objects on a real socket, which are read, changed and deleted."""

import collections.abc
import contextlib
import copy
import http.server
import json
import pathlib
import ssl
import threading
import urllib.parse
from collections.abc import Callable
from typing import Any

from tests.ansible.api_server import write_kubeconfig

RBAC, ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"
# Version and kind to the name in paths.
KINDS = {
    ("v1", "Node"): "nodes",
    ("v1", "Secret"): "secrets",
    ("v1", "Service"): "services",
    ("v1", "ServiceAccount"): "serviceaccounts",
    ("discovery.k8s.io/v1", "EndpointSlice"): "endpointslices",
    ("monitoring.coreos.com/v1", "ServiceMonitor"): "servicemonitors",
    **{(RBAC, kind): f"{kind.lower()}s" for kind in (
        "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
    )},
    **{(ADMISSION, f"ValidatingAdmissionPolicy{part}"): f"validatingadmissionpolic{end}"
       for part, end in (("", "ies"), ("Binding", "ybindings"))},
}  # fmt: skip
CLUSTER_WIDE = ("Node", "ClusterRole", "ClusterRoleBinding")
Objects = dict[str, dict[str, Any]]
Missing = Callable[[str], dict[str, Any] | None]
# Method, path, query and body to status and answer; None leaves the request to this server.
Answering = Callable[
    [str, str, dict[str, list[str]], dict[str, Any]], tuple[int, dict[str, Any]] | None
]


def discovery() -> dict[str, Any]:
    """Return the answers that say which kinds there are, by their paths."""
    versions = sorted({version for version, _ in KINDS})
    groups: list[dict[str, Any]] = []
    answers: dict[str, Any] = {
        "/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.4"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "groups": groups},
    }
    for version in versions:
        group, _, name = version.rpartition("/")
        if group:
            one = {"groupVersion": version, "version": name}
            groups.append({"name": group, "versions": [one], "preferredVersion": one})
        resources = [
            {
                "name": KINDS[key], "kind": key[1], "singularName": key[1].lower(),
                "namespaced": key[1] not in CLUSTER_WIDE and key[0] != ADMISSION,
                "verbs": ["get", "list", "create", "patch", "delete"],
            }
            for key in KINDS if key[0] == version
        ]  # fmt: skip
        answers[f"/apis/{version}" if group else f"/api/{version}"] = {
            "kind": "APIResourceList", "groupVersion": version, "resources": resources,
        }  # fmt: skip
    return answers


def merged(old: Any, patch: Any) -> Any:
    """Return a value with a merge patch applied (RFC 7396): null removes a key."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


class _Handler(http.server.BaseHTTPRequestHandler):
    server: "_Server"

    def do_POST(self) -> None:
        if not self._was_answered("POST", json.loads(self._body())):
            self._answer(None)

    def do_GET(self) -> None:
        if self._was_answered("GET", {}):
            return
        self._answer(self.server.answers.get(self._path()) or self._object())

    def do_PATCH(self) -> None:
        found = self._object()
        patch = json.loads(self._body())
        if self._was_answered("PATCH", patch):
            return
        changed = None if found is None else merged(copy.deepcopy(found), patch)
        if changed is not None and not self._is_dry():
            self.server.objects[self._path()] = changed
        self._answer(changed)

    def do_DELETE(self) -> None:
        self._body()
        found = self._object()
        if not self._is_dry():
            self.server.objects.pop(self._path(), None)
        self._answer(found)

    def _path(self) -> str:
        return urllib.parse.urlsplit(self.path).path.rstrip("/")

    def _is_dry(self) -> bool:
        return "dryRun=All" in urllib.parse.urlsplit(self.path).query

    def _object(self) -> dict[str, Any] | None:
        return self.server.objects.get(self._path()) or self.server.missing(self._path())

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _was_answered(self, method: str, body: dict[str, Any]) -> bool:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        special = self.server.answering(method, self._path(), query, body)
        if special is not None:
            self._answer(special[1], special[0])
        return special is not None

    def _answer(self, found: dict[str, Any] | None, status: int = 200) -> None:
        body = json.dumps(found or {"kind": "Status", "code": 404}).encode()
        self.send_response(status if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print no line: pytest's output is for failures."""


class _Server(http.server.ThreadingHTTPServer):
    def __init__(self, objects: Objects, missing: Missing, answering: Answering) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers, self.objects = discovery(), objects
        self.missing, self.answering = missing, answering


@contextlib.contextmanager
def serving(
    folder: pathlib.Path,
    objects: Objects,
    missing: Missing = lambda path: None,
    answering: Answering = lambda method, path, query, body: None,
    context: ssl.SSLContext | None = None,
) -> collections.abc.Iterator[pathlib.Path]:
    """Serve objects by their paths, and change them as asked; yields an administrator's kubeconfig.

    Args:
        folder: where the kubeconfig is written.
        objects: path to object, which patches and deletions change.
        missing: makes the object of another path; None where there is none.
        answering: answers a request in this server's place, or leaves it to it.
        context: its certificate, with which it speaks TLS; the kubeconfig says nothing of that.
    """
    server = _Server(objects, missing, answering)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield write_kubeconfig(folder, server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
