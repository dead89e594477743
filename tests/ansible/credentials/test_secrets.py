"""A verbose run, whose output people send when they ask for help, shows no secret."""

import base64
import contextlib
import json
import pathlib
from typing import Any

import pytest

from tests.ansible import cluster_server
from tests.ansible.api_server import serving
from tests.ansible.preflight.preflight_host import play, write_program
from tests.ansible.rendering import run_role

pytestmark = pytest.mark.long

GRANTED = "a-token-that-never-ends"


def existing(path: str) -> dict[str, Any] | None:
    """Return the object at a path: whatever is asked for is there."""
    *_, resource, name = path.split("/")
    for (version, kind), plural in cluster_server.KINDS.items():
        if plural == resource:
            metadata = {"name": name, "uid": "1", "resourceVersion": "1"}
            filled = {"token": base64.b64encode(GRANTED.encode()).decode(), "ca.crt": "Y2E="}
            data = {"data": filled} if kind == "Secret" else {}
            return {"apiVersion": version, "kind": kind, "metadata": metadata, **data}
    return None


def cluster(folder: pathlib.Path) -> contextlib.AbstractContextManager[pathlib.Path]:
    """Serve a cluster in which all our objects are; gives an administrator's kubeconfig."""
    return cluster_server.serving(folder, {}, existing)


def run(folder: pathlib.Path, part: str, kubeconfig: pathlib.Path) -> str:
    """Run a part of the role as verbosely as people do; returns all that it says."""
    variables = {
        "cluster_objects_kubeconfig": str(kubeconfig),
        "cluster_objects_gpu_hosts": ["gpu1"],
    }
    done = run_role(folder, "cluster_objects", part, variables, "-vvv", "--diff")
    assert done.returncode == 0, done.stdout
    return done.stdout + done.stderr


def test_a_verbose_run_shows_no_token_that_it_removes(tmp_path: pathlib.Path) -> None:
    with cluster(tmp_path) as kubeconfig:
        said = run(tmp_path, "remove_tokens", kubeconfig)
    assert "gpustack-extender" in said
    assert base64.b64encode(GRANTED.encode()).decode() not in said
    assert GRANTED not in said


@pytest.mark.parametrize("part", ["running_pods", "preflight"])
def test_a_verbose_run_shows_no_environment_of_a_pod(tmp_path: pathlib.Path, part: str) -> None:
    header = {"httpGet": {"port": 80, "httpHeaders": [{"name": "X-Key", "value": GRANTED}]}}
    container = {
        "name": "main", "image": "x", "env": [{"name": "PASSWORD", "value": GRANTED}],
        "command": ["sh", "-c", f"login {GRANTED}"], "args": [GRANTED], "livenessProbe": header,
    }  # fmt: skip
    # `kubectl apply` keeps the whole object there
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(container)}
    metadata = {
        "name": "web", "namespace": "default", "labels": {"env": "production"},
        "annotations": annotations,
    }  # fmt: skip
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


def test_a_verbose_run_shows_no_password_of_a_registry(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kubelet").mkdir()
    said = f"""cat <<'TOML'
version = 2
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "nvidia"
[plugins."io.containerd.grpc.v1.cri".registry.configs."registry.test".auth]
password = "{GRANTED}"
TOML"""
    write_program(tmp_path, "containerd", said)
    variables = {"preflight_kubelet_path": str(tmp_path / "kubelet")}
    status, output = play(tmp_path, "gpu_software", variables, "-vvv")
    assert status != 0
    assert "containerd's default runtime is nvidia" in output
    assert GRANTED not in output
