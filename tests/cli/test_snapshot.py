"""``gpustack snapshot`` writes an API server's objects, with and without a quota."""

import json
import pathlib

import pytest

from gpustack.cli.main import main
from tests.cli.snapshots import KEYS, node, pod, quota, write
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


def test_a_snapshot_leaves_out_what_a_user_may_nest_endlessly(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noted = pod("first", 50, 8)
    noted["metadata"]["managedFields"] = [{"manager": "anybody", "fieldsV1": {"f:a": {}}}]
    with FakeKubeApi() as api:
        api.create("pods", noted)
        assert snapshot(api, tmp_path, capsys) == ["Pod"]
    assert "managedFields" not in (tmp_path / "snapshot.json").read_text()


@pytest.mark.parametrize("status", [403, 404])
def test_an_absent_or_forbidden_quota_is_left_out(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    with FakeKubeApi() as api:
        api.create("nodes", node())
        api.faults.fail("GET", r"/configmaps/", status=status, times=9)
        kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
        assert main(["snapshot", "--kubeconfig", str(kubeconfig)]) == 0
    said = capsys.readouterr()
    assert [item["kind"] for item in json.loads(said.out)["items"]] == ["Node"]
    # A quota that is there but unread would make every answer too kind.
    assert ("may not read the quota" in said.err) == (status == 403)


def test_a_server_that_fails_is_an_error(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeKubeApi() as api:
        api.faults.fail("GET", r"/configmaps/", status=500, times=9)
        kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
        assert main(["snapshot", "--kubeconfig", str(kubeconfig)]) == 2
    assert "500" in capsys.readouterr().err


def test_a_quota_of_another_name_is_read_where_it_is_said_to_be(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = quota('{"default": {"quota": {"A100": 1}}}')
    limits["metadata"] = {"namespace": "gpu", "name": "limits"}
    named = ["--quota", "gpu/limits"]
    with FakeKubeApi() as api:
        api.create("nodes", node())
        api.create("pods", pod("first", 50, 8))
        api.create("configmaps", limits)
        kubeconfig = str(api.write_kubeconfig(tmp_path / "kubeconfig"))
        assert main(["snapshot", "--kubeconfig", kubeconfig, *named]) == 0
        path = tmp_path / "snapshot.json"
        path.write_text(capsys.readouterr().out)
        assert main(["explain", "first", "--kubeconfig", kubeconfig, *named]) == 1
    assert main(["explain", "first", "--snapshot", str(path), *named]) == 1
    assert capsys.readouterr().out.count("ModelForbidden") == 2
    assert main(["explain", "first", "--snapshot", str(path)]) == 0


def test_labels_of_other_names_say_the_pool_and_the_model(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = {
        "kind": "Node",
        "metadata": {"name": "old", "labels": {"gpu": "Tesla-P40", "pool": "blue"}},
        "status": {"capacity": {KEYS.vcuda_core: "100", KEYS.vcuda_memory: "89"}},
    }
    limits = quota('{"default": {"quota": {"P40": 1}, "pool": ["blue"]}}')
    path = write(tmp_path, plain, pod("first", 50, 8), limits)
    assert main(["explain", "first", "--snapshot", path]) == 1
    assert "PoolForbidden" in capsys.readouterr().out
    named = ["--pool-label", "pool", "--model-label", "gpu"]
    assert main(["explain", "first", "--snapshot", path, *named]) == 0


@pytest.mark.parametrize("text", ["limits", "gpu/", "/limits", "a/b/c"])
def test_a_quota_that_is_no_name_of_two_parts_is_wrong_use(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["snapshot", "--quota", text])
    assert ended.value.code == 2
    assert "is not NAMESPACE/NAME" in capsys.readouterr().err
