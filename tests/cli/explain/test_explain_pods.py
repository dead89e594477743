"""``gpustack explain`` for pods in unusual states, and for other policies."""

import json
import pathlib
from dataclasses import replace
from typing import Any

import pytest

from gpustack.cli.main import main
from gpustack.model.node import Node
from gpustack.wire import schemas
from tests.cli.snapshots import CARDS, KEYS, NODE, half_bad, node, pod, quota, write

DECISION = {KEYS.idx_prefix + "0": "7,8"}


def changed(
    item: dict[str, Any],
    *,
    spec: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    **metadata: object,
) -> dict[str, Any]:
    """Return the pod or node with more in its spec, annotations and metadata."""
    written = {**item["metadata"].get("annotations", {}), **(annotations or {})}
    return {
        **item,
        "metadata": {**item["metadata"], **metadata, "annotations": written},
        "spec": {**item.get("spec", {}), **(spec or {})},
    }


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any, str]:
    """Run with JSON output; return the status, the answer and the text of stderr."""
    status = main(["explain", *arguments, "-o", "json"])
    said = capsys.readouterr()
    answer = json.loads(said.out)
    assert schemas.problems(schemas.load("explain"), answer) == []
    return status, answer, said.err


def test_a_gated_pod_waits_for_its_gates(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gated = changed(pod("gated", 50, 8), spec={"schedulingGates": [{"name": "queue"}]})
    path = write(tmp_path, node(), gated)
    status, answer, _ = ask(capsys, "gated", "--snapshot", path)
    assert status == 1
    assert answer["nodes"]["gpu1"]["code"] == "SchedulingGated"
    (change,) = answer["changes"]
    assert (change["kind"], change["names"]) == ("gates-removed", ["queue"])


def test_a_node_that_keeps_the_pod_away_is_named_with_the_reason(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, changed(node(), spec={"unschedulable": True}), pod("small", 50, 8))
    status, answer, _ = ask(capsys, "small", "--snapshot", path)
    assert status == 1
    assert answer["nodes"]["gpu1"]["code"] == "NodeUnschedulable"
    (change,) = answer["changes"]
    assert change["text"] == "node gpu1 takes the pod (now: node gpu1 is cordoned)"


def test_an_invented_decision_is_ignored_and_reported(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(), changed(pod("liar", 50, 8), annotations=DECISION))
    status, answer, said = ask(capsys, "liar", "--snapshot", path)
    assert status == 0
    assert answer["held"] is None
    assert KEYS.predicate_node in answer["notes"][0]
    assert not said


@pytest.mark.parametrize(
    ("annotations", "told"),
    [(DECISION, "its decision counts for nothing: annotation"), ({}, "no decision stands on it")],
)
def test_a_bound_pod_with_unknown_cards_is_named_by_explain_and_by_usage(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    annotations: dict[str, str],
    told: str,
) -> None:
    bound = changed(pod("odd", 50, 8), spec={"nodeName": "gpu1"}, annotations=annotations)
    path = write(tmp_path, node(), bound)
    status, answer, said = ask(capsys, "odd", "--snapshot", path)
    assert status == 1
    assert not answer["nodes"]
    assert told in answer["notes"][0]
    assert f"{path}: items[1] (pod default/odd): " in said
    assert main(["usage", "--snapshot", path]) == 1
    assert told in capsys.readouterr().err


def test_a_pod_that_is_being_deleted_is_said_to_be(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dying = changed(pod("dying", 60, 8, held=True), deletionTimestamp="2026-01-01T00:00:00Z")
    status, answer, _ = ask(capsys, "dying", "--snapshot", write(tmp_path, node(), dying))
    assert status == 0
    assert answer["notes"] == ["it is being deleted since 2026-01-01T00:00:00Z"]
    assert answer["held"]["containers"][0]["minors"] == [0]


def test_the_explanation_of_a_running_pod_names_its_unhealthy_card(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sick = Node(name="gpu1", cards=tuple(replace(card, healthy=False) for card in CARDS))
    path = write(tmp_path, node(sick), pod("holder", 60, 8, held=True))
    status, answer, _ = ask(capsys, "holder", "--snapshot", path)
    assert status == 0
    assert answer["trouble"]["code"] == "UnhealthyCards"
    assert main(["explain", "holder", "--snapshot", path]) == 0
    assert "UnhealthyCards: card 0 is unhealthy" in capsys.readouterr().out


def test_a_running_pod_whose_limits_are_refused_is_explained(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(), half_bad("old"))
    status, answer, _ = ask(capsys, "old", "--snapshot", path)
    assert status == 0
    assert [each["minors"] for each in answer["held"]["containers"]] == [[0]]
    [note] = answer["notes"]
    assert "without compute" in note
    assert note.endswith("ignored, because the pod is bound")


def test_the_namespace_may_stand_before_the_name_or_behind_n(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(), changed(pod("small", 50, 8), namespace="team"))
    for arguments in (["team/small"], ["small", "-n", "team"], ["team/small", "-n", "team"]):
        status, answer, _ = ask(capsys, *arguments, "--snapshot", path)
        assert (status, answer["pod"]) == (0, "team/small")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["small"], "no pod default/small; there is team/small"),
        (["small", "-n", "red"], "no pod red/small; there is team/small"),
        (["team/small", "-n", "red"], "team/small is in namespace team, but -n says red"),
        (["large"], "no pod default/large; write NAMESPACE/NAME"),
    ],
)
def test_a_pod_that_is_not_there_is_told_with_where_one_is(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    path = write(tmp_path, node(), changed(pod("small", 50, 8), namespace="team"))
    assert main(["explain", *arguments, "--snapshot", path]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(("policy", "first"), [("exact", 0), ("original", 0), ("spread", 1)])
def test_the_policy_decides_on_which_card_a_share_goes(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], policy: str, first: int
) -> None:
    path = write(tmp_path, node(), pod("holder", 60, 8, held=True), pod("small", 30, 8))
    _, answer, _ = ask(capsys, "small", "--snapshot", path, "--policy", policy)
    assert answer["choice"] == NODE.name
    assert answer["nodes"]["gpu1"]["containers"][0]["minors"] == [first]


def test_fgd_measures_by_the_requests_of_the_clusters_pods(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(), pod("holder", 60, 8, held=True))
    _, answer, _ = ask(capsys, "holder", "--snapshot", path, "--policy", "fgd")
    (other,) = answer["alternatives"]
    assert (other["verdict"], other["criterion"]) == ("worse", "lowest minors")


def test_explain_says_that_no_single_change_is_enough(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = Node(name="cpu1")
    path = write(tmp_path, node(bare), pod("small", 50, 8))
    assert main(["explain", "small", "--snapshot", path]) == 1
    assert "no single change is enough" in capsys.readouterr().out


def test_a_pod_short_of_cards_and_quota_is_told_both(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    holder = changed(pod("holder", 200, 0, held=True), namespace="other")
    limits = quota('{"default": {"quota": {"T4": 1}}}')
    path = write(tmp_path, node(), holder, pod("whole", 200, 0), limits)
    status, answer, _ = ask(capsys, "whole", "--snapshot", path)
    assert status == 1
    told = {each["kind"]: (each["text"], each["also"]) for each in answer["changes"]}
    also = "the quota of namespace 'default' allows 2 instead of 1 T4 cards"
    assert told["pods-end"] == (f"pod other/holder ends, and {also}", also)
    assert main(["explain", "whole", "--snapshot", path]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "no single change is enough" not in shown
    assert f"pod other/holder ends, and {also} gpu1" in shown
