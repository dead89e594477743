"""The cluster is found by options, $KUBECONFIG, the home folder, and kubeadm's file last."""

import json
import os
import pathlib
from collections.abc import Iterator

import pytest
import yaml

from gpustack.cli import source
from gpustack.cli.main import main
from tests.cli.snapshots import node, pod, write
from tests.fakes.kube_api import FakeKubeApi


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    with FakeKubeApi() as server:
        server.create("nodes", node())
        server.create("pods", {**pod("web", 50, 8), "metadata": {"name": "web"}})
        yield server


@pytest.fixture(autouse=True)
def home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An empty home folder, and no other kubeconfig."""
    folder = tmp_path / "home"
    (folder / ".kube").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(source, "_ADMIN", str(tmp_path / "admin.conf"))
    return folder


def asked(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    """Return the nodes of the cluster that is asked."""
    assert main(["usage", *options, "-o", "json"]) == 0
    return [each["node"] for each in json.loads(capsys.readouterr().out)["cards"]]


def refused(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["usage", *options]) == 2
    said = capsys.readouterr()
    [line] = said.err.splitlines()
    assert said.out == ""
    return line


def test_kubectls_own_file_is_read(
    api: FakeKubeApi, home: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.write_kubeconfig(home / ".kube" / "config")
    assert asked(capsys) == ["gpu1", "gpu1"]
    assert asked(capsys, "--kubeconfig", "", "--context", "") == ["gpu1", "gpu1"]  # a variable's


def test_on_a_control_plane_host_the_last_resort_is_kubeadms_file(
    api: FakeKubeApi, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.write_kubeconfig(tmp_path / "admin.conf")
    assert asked(capsys) == ["gpu1", "gpu1"]


def test_the_option_comes_before_the_variable_and_that_before_the_home(
    api: FakeKubeApi,
    home: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    named, set_, usual = tmp_path / "named", tmp_path / "set", home / ".kube" / "config"
    usual.write_text("[of the home")
    assert str(usual) in refused(capsys)
    set_.write_text("[of the variable")
    monkeypatch.setenv("KUBECONFIG", str(set_))
    assert str(set_) in refused(capsys)
    assert asked(capsys, "--kubeconfig", str(api.write_kubeconfig(named))) == ["gpu1", "gpu1"]


def test_the_variable_may_hold_a_list_of_files(
    api: FakeKubeApi,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = tmp_path / "first"
    first.write_text("current-context: fake\n")
    second = api.write_kubeconfig(tmp_path / "second")
    several = (first, tmp_path / "nowhere", "", second, second)
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, several)))
    assert asked(capsys) == ["gpu1", "gpu1"]
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'nowhere'}{os.pathsep}/nowhere/else")
    assert refused(capsys).endswith("nowhere:/nowhere/else: No such file or directory")


def test_another_context_may_be_named(
    api: FakeKubeApi, home: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = api.write_kubeconfig(home / ".kube" / "config")
    value = yaml.safe_load(path.read_text())
    value["contexts"].append({"name": "other", "context": {"cluster": "gone"}})
    value["current-context"] = "other"
    path.write_text(yaml.safe_dump(value))
    assert asked(capsys, "--context", "fake") == ["gpu1", "gpu1"]
    told = refused(capsys)
    assert told.startswith(f"gpustack: kubeconfig {path}:")
    assert told.endswith("contexts[1].context.cluster: no cluster is named 'gone'; there is fake")
    assert refused(capsys, "--context", "x").endswith(
        "no context is named 'x'; there is fake, other"
    )


def test_a_pod_is_looked_for_in_the_namespace_of_the_context(
    api: FakeKubeApi, home: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = api.write_kubeconfig(home / ".kube" / "config")
    value = yaml.safe_load(path.read_text())
    value["contexts"][0]["context"]["namespace"] = "team"
    path.write_text(yaml.safe_dump(value))
    assert main(["explain", "web"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(
        f"gpustack: {path} (context fake): no pod team/web; there is default/web"
    )
    assert main(["explain", "web", "-n", "default"]) == 0


def test_without_any_kubeconfig_the_places_are_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(capsys)
    for place in ("~/.kube/config", str(tmp_path / "admin.conf"), "--kubeconfig", "$KUBECONFIG"):
        assert place in told


def test_bad_yaml_is_one_line(home: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / ".kube" / "config"
    path.write_text("clusters:\n- name: a\n  cluster: {server: b\nusers: []\n")
    told = refused(capsys)
    assert told.startswith(f"gpustack: kubeconfig {path}:4:6: is not YAML: ")


@pytest.mark.parametrize("option", ["--kubeconfig", "--context"])
def test_a_snapshot_and_a_cluster_together_are_wrong_use(
    tmp_path: pathlib.Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node())
    with pytest.raises(SystemExit, match="2"):
        main(["usage", "--snapshot", path, option, "x"])
    assert f"argument {option}: not allowed with argument --snapshot" in capsys.readouterr().err
