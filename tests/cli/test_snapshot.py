"""``gpustack snapshot`` against an API server: what it writes, and without a quota."""

import json
import pathlib

import pytest

from gpustack.cli.main import main
from tests.cli.snapshots import node, pod, quota
from tests.fakes.kube_api import FakeKubeApi


def snapshot(
    api: FakeKubeApi, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
    assert main(["snapshot", "--kubeconfig", str(kubeconfig)]) == 0
    written = capsys.readouterr().out
    (folder / "snapshot.json").write_text(written)
    return [item["kind"] for item in json.loads(written)["items"]]


def test_a_snapshot_holds_the_quota_and_explain_reads_it(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeKubeApi() as api:
        api.create("nodes", node())
        api.create("pods", pod("first", 50, 8))
        api.create("configmaps", quota('{"default": {"quota": {"A100": 1}}}'))
        assert snapshot(api, tmp_path, capsys) == ["Node", "Pod", "ConfigMap"]
    assert main(["explain", "first", "--snapshot", str(tmp_path / "snapshot.json")]) == 1
    assert "ModelForbidden" in capsys.readouterr().out


@pytest.mark.parametrize("status", [403, 404])
def test_a_quota_that_is_absent_or_forbidden_is_none(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    with FakeKubeApi() as api:
        api.create("nodes", node())
        api.faults.fail("GET", r"/configmaps/", status=status, times=9)
        assert snapshot(api, tmp_path, capsys) == ["Node"]


def test_a_server_that_fails_is_an_error(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeKubeApi() as api:
        api.faults.fail("GET", r"/configmaps/", status=500, times=9)
        kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
        assert main(["snapshot", "--kubeconfig", str(kubeconfig)]) == 2
    assert "500" in capsys.readouterr().err
