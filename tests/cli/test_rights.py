"""An identity that may read less than a command needs: one line says what, and nothing changes."""

import pathlib
from collections.abc import Iterator

import pytest

from gpustack.cli.main import main
from tests.cli import snapshots
from tests.fakes.kube_api import FakeKubeApi

PODS = r"/api/v1/(namespaces/[^/]+/)?pods"
NODES = r"/api/v1/nodes"


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    with FakeKubeApi() as server:
        server.create("nodes", snapshots.node())
        server.create("pods", snapshots.pod("web", 50, 8))
        yield server


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (PODS, ["get", "pods", "--namespace", "others"]),
        (PODS, ["get", "nodes"]),
        (PODS, ["explain", "others/web"]),
        (PODS, ["usage"]),
        (PODS, ["snapshot"]),
        (NODES, ["get", "pods"]),
        (NODES, ["get", "pods", "-w"]),
    ],
)
def test_what_the_caller_may_not_read_is_one_line(
    api: FakeKubeApi,
    tmp_path: pathlib.Path,
    refused: str,
    words: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    api.faults.fail("GET", refused, status=403, times=9, reason="Forbidden")
    path = api.write_kubeconfig(tmp_path / "kubeconfig")
    assert main([*words, "--kubeconfig", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    assert "403 Forbidden" in line
    assert {request.method for request in api.requests} == {"GET"}


def test_a_pod_of_another_namespace_is_not_explained(
    api: FakeKubeApi, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = api.write_kubeconfig(tmp_path / "kubeconfig")
    assert main(["explain", "others/web", "--kubeconfig", str(path)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "others/web" in line
    assert {request.method for request in api.requests} == {"GET"}
