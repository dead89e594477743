"""`gpustack what-if --drain` names the pods that need another place, and the reason of others."""

import pathlib
from dataclasses import replace

import pytest

from gpustack.cli.main import main
from tests.cli.plan.planning import DAEMON, OTHER, answer, two_nodes
from tests.cli.snapshots import KEYS, half_bad, node, pod, write


def test_a_drained_nodes_pods_go_elsewhere(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, value = answer(capsys, "--snapshot", two_nodes(tmp_path), "--drain", "gpu1")
    assert status == 0
    [moved] = value["placements"]
    assert (moved["pod"], moved["node"]) == ("default/holder", "gpu2")


@pytest.fixture
def three(tmp_path: pathlib.Path) -> str:
    """Two nodes that hold a pod each, and an idle one."""
    third = replace(OTHER, name="gpu3")
    moved = pod("moved", 30, 8, held=True)
    moved["spec"]["nodeName"] = "gpu2"
    moved["metadata"]["annotations"][KEYS.predicate_node] = "gpu2"
    holder = pod("holder", 60, 8, held=True)
    return write(tmp_path, node(), node(OTHER), node(third), holder, moved)


@pytest.mark.parametrize(
    "drain",
    [
        ["--drain", "gpu1", "--drain", "gpu2"],
        ["--drain", "gpu1,gpu2"],
        ["--drain", "gpu2", "--drain", "gpu1,gpu2"],
    ],
)
def test_several_drained_nodes_are_one_drain(
    three: str, drain: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, value = answer(capsys, "--snapshot", three, *drain)
    assert status == 0
    placed = [(each["pod"], each["node"]) for each in value["placements"]]
    assert placed == [("default/holder", "gpu3"), ("default/moved", "gpu3")]


def test_a_pod_of_the_last_drained_node_has_no_place(
    three: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["what-if", "--snapshot", three, "--drain", "gpu1,gpu2,gpu3"]) == 1
    shown = capsys.readouterr().out
    assert shown.splitlines()[1].split() == ["default/holder", "1", "no", "node", "is", "left"]


def test_a_drain_that_leaves_nothing_to_place_names_nodes_and_why(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon = pod("daemon", 60, 8, held=True)
    daemon["metadata"]["ownerReferences"] = [DAEMON]
    path = write(tmp_path, node(), node(OTHER), daemon)
    assert main(["what-if", "--snapshot", path, "--drain", "gpu1,gpu2"]) == 0
    _, nothing = capsys.readouterr().out.split("\n\n")
    lines = [line.split(maxsplit=1) for line in nothing.splitlines()[1:]]
    assert nothing.startswith("NOTHING TO PLACE FROM")
    assert lines == [
        ["gpu1", "all GPU pods on it stay"],
        ["gpu2", "no pod on it asks for a GPU"],
    ]


def test_a_pod_that_only_names_a_daemonset_moves(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its user may write any owner into it; `kubectl drain` evicts it."""
    named = pod("named", 60, 8, held=True)
    named["metadata"]["ownerReferences"] = [DAEMON | {"controller": False}]
    path = write(tmp_path, node(), node(OTHER), named)
    status, value = answer(capsys, "--snapshot", path, "--drain", "gpu1")
    assert status == 0
    assert [each["pod"] for each in value["placements"]] == ["default/named"]


def test_a_running_pod_whose_limits_are_refused_has_no_place(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(), node(OTHER), half_bad("old"))
    status, value = answer(capsys, "--snapshot", path, "--drain", "gpu1")
    assert (status, value["placements"]) == (1, [])
    [unplaced] = value["unplaced"]
    assert unplaced["pod"] == "default/old"
    assert {name: each["code"] for name, each in unplaced["nodes"].items()} == {
        "gpu2": "BadRequest"
    }
    assert "without compute" in unplaced["nodes"]["gpu2"]["message"]
    assert main(["what-if", "--snapshot", path, "--drain", "gpu1"]) == 1
    _, line = capsys.readouterr().out.splitlines()
    assert line.split() == ["default/old", "1", "BadRequest", "on", "1", "node"]


def test_a_drained_pod_may_tolerate_taints_beyond_a_number(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    holder = pod("holder", 60, 8, held=True)
    holder["spec"]["tolerations"] = [{"key": "level", "operator": "Gt", "value": "900"}]
    second = node(OTHER)
    second["spec"] = {"taints": [{"key": "level", "value": "950", "effect": "NoSchedule"}]}
    snapshot = write(tmp_path, node(), second, holder)
    status, value = answer(capsys, "--snapshot", snapshot, "--drain", "gpu1")
    assert (status, [each["node"] for each in value["placements"]]) == (0, ["gpu2"])
