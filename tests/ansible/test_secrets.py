"""A verbose run, whose output people send when they ask for help, shows no secret."""

import base64
import collections.abc
import contextlib
import http.server
import json
import pathlib
import sys
import threading
import urllib.parse
from typing import Any

import pytest
import yaml

from tests.ansible.api_server import serving, write_kubeconfig
from tests.ansible.rendering import ansible

pytestmark = pytest.mark.long

GRANTED = "a-token-that-never-ends"
RBAC, ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"
# Version and kind to the name in paths.
KINDS = {
    ("v1", "Node"): "nodes",
    ("v1", "Secret"): "secrets",
    ("v1", "ServiceAccount"): "serviceaccounts",
    **{(RBAC, kind): f"{kind.lower()}s" for kind in (
        "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
    )},
    **{(ADMISSION, f"ValidatingAdmissionPolicy{part}"): f"validatingadmissionpolic{end}"
       for part, end in (("", "ies"), ("Binding", "ybindings"))},
}  # fmt: skip
CLUSTER_WIDE = ("Node", "ClusterRole", "ClusterRoleBinding")


def discovery() -> dict[str, Any]:
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
                "verbs": ["get", "list", "create", "patch"],
            }
            for key in KINDS if key[0] == version
        ]  # fmt: skip
        answers[f"/apis/{version}" if group else f"/api/{version}"] = {
            "kind": "APIResourceList", "groupVersion": version, "resources": resources,
        }  # fmt: skip
    return answers


def existing(path: str) -> dict[str, Any] | None:
    """Return the object at a path: whatever is asked for is there."""
    *_, resource, name = path.split("/")
    for (version, kind), plural in KINDS.items():
        if plural == resource:
            metadata = {"name": name, "uid": "1", "resourceVersion": "1"}
            filled = {"token": base64.b64encode(GRANTED.encode()).decode(), "ca.crt": "Y2E="}
            data = {"data": filled} if kind == "Secret" else {}
            return {"apiVersion": version, "kind": kind, "metadata": metadata, **data}
    return None


@contextlib.contextmanager
def cluster(folder: pathlib.Path) -> collections.abc.Iterator[pathlib.Path]:
    """Serve a cluster in which all our objects are; yields an administrator's kubeconfig."""
    answers = discovery()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = urllib.parse.urlsplit(self.path).path.rstrip("/")
            answer = answers.get(path) or existing(path)
            body = json.dumps(answer or {"kind": "Status", "code": 404}).encode()
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_PATCH(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            """Print no line: pytest's output is for failures."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield write_kubeconfig(folder, server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


def run(folder: pathlib.Path, part: str, kubeconfig: pathlib.Path) -> str:
    """Run a part of the role as verbosely as people do; returns all that it says."""
    role = {
        "ansible.builtin.import_role": {"name": "cluster_objects", "tasks_from": part},
        "vars": {
            "ansible_python_interpreter": sys.executable,
            "cluster_objects_kubeconfig": str(kubeconfig),
            "cluster_objects_gpu_hosts": ["gpu1"],
        },
    }
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [role]}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    done = ansible(
        "ansible-playbook", "--inventory=localhost,", "--connection=local", "-vvv", "--diff",
        str(folder / "play.yml"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout + done.stderr


@pytest.mark.parametrize("part", ["main", "narrow"])
def test_a_verbose_run_shows_no_token(tmp_path: pathlib.Path, part: str) -> None:
    with cluster(tmp_path) as kubeconfig:
        said = run(tmp_path, part, kubeconfig)
    assert "gpustack-extender" in said
    assert base64.b64encode(GRANTED.encode()).decode() not in said
    assert GRANTED not in said


@pytest.mark.parametrize("part", ["running_pods", "preflight"])
def test_a_verbose_run_shows_no_environment_of_a_pod(tmp_path: pathlib.Path, part: str) -> None:
    container = {"name": "main", "image": "x", "env": [{"name": "PASSWORD", "value": GRANTED}]}
    metadata = {"name": "web", "namespace": "default", "labels": {"env": "production"}}
    objects = {
        "pods": [{"metadata": metadata, "spec": {"nodeName": "gpu1", "containers": [container]}}],
        "daemonsets": [
            {"metadata": metadata, "spec": {"template": {"spec": {"containers": [container]}}}}
        ],
    }
    with serving(tmp_path, objects) as kubeconfig:
        said = run(tmp_path, part, kubeconfig)
    assert "production" in said
    assert GRANTED not in said
