"""Clusters hold more than plain pods: other kinds, nodes that went, cards that fell out."""

import dataclasses
import itertools
import json
import pathlib
import random
from typing import Any

import pytest

from gpustack.cli.main import main
from gpustack.model.node import Card, Node
from gpustack.wire import schemas
from gpustack.wire.user_keys import names_of
from tests.cli.explain.test_explain_pods import changed
from tests.cli.snapshots import KEYS, NODE, node, pod, write

LOST = {KEYS.idx_prefix + "0": "7", KEYS.uuid_prefix + "0": "GPU-7"}


def elsewhere(name: str) -> dict[str, Any]:
    """Return a pod that holds card 0 of a node that is not in the snapshot."""
    held = pod(name, 60, 8, held=True)
    moved = changed(held, annotations={KEYS.predicate_node: "gone"})
    return {**moved, "spec": {**moved["spec"], "nodeName": "gone"}}


def half(folder: pathlib.Path) -> str:
    path = folder / "pod.json"
    path.write_text(json.dumps(pod("half", 50, 8)))
    return str(path)


def test_objects_of_other_kinds_are_passed_over_in_any_shape(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {"kind": "NodePool", "metadata": {"name": "x"}, "spec": {"taints": "all"}, "data": 7}
    assert main(["usage", "--snapshot", write(tmp_path, other, node())]) == 0
    assert "gpu1" in capsys.readouterr().out


@pytest.mark.parametrize("said", [{}, {"kind": None}])
def test_an_object_of_no_kind_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], said: dict[str, None]
) -> None:
    path = write(tmp_path, {**said, "metadata": {"name": "x"}})
    assert main(["usage", "--snapshot", path]) == 2
    assert f"{path}: items[0].kind: is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("holder", "told"),
    [
        (elsewhere("stray"), "it holds cards of node gone, which is not known here"),
        (
            changed(pod("stray", 60, 8, held=True), annotations=LOST),
            "it holds card 7, and node gpu1 has no such card",
        ),
        (
            changed(pod("stray", 60, 8), spec={"nodeName": "gpu1"}),
            "it is bound to gpu1, but no decision stands on it",
        ),
    ],
    ids=["no such node", "no such card", "no decision"],
)
def test_usage_and_what_if_name_pods_whose_cards_do_not_count(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], holder: dict[str, Any], told: str
) -> None:
    path = write(tmp_path, node(), holder)
    assert main(["usage", "--snapshot", path]) == 1
    assert f"items[1] (pod default/stray): {told}" in capsys.readouterr().err
    assert main(["what-if", "--snapshot", path, "--pod", half(tmp_path), "-o", "json"]) == 0
    said = capsys.readouterr()
    assert f"items[1] (pod default/stray): {told}" in said.err
    assert json.loads(said.out)["unplaced"] == []


def test_cards_of_a_node_that_cannot_be_read_are_told_of_the_node_alone(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = changed(node(), annotations={KEYS.gpu_devices: "{"})
    path = write(tmp_path, broken, pod("held", 60, 8, held=True))
    assert main(["usage", "--snapshot", path]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "items[0] (node gpu1)" in line


def test_explain_of_a_running_pod_on_an_unknown_node_compares_nothing(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(), elsewhere("stray"))
    assert main(["explain", "stray", "--snapshot", path, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert schemas.problems(schemas.load("explain"), answer) == []
    assert answer["notes"] == ["node gone is not known here: nothing to compare with"]


@pytest.mark.parametrize("key", names_of(KEYS))
def test_a_pod_with_a_bad_user_key_is_still_counted(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    holder = pod("held", 60, 8, held=True)
    holder["metadata"]["annotations"][key] = ","
    other = node(dataclasses.replace(NODE, name="gpu2"))
    path = write(tmp_path, node(), other, holder)
    assert main(["usage", "--snapshot", path]) == 0
    capsys.readouterr()
    assert main(["what-if", "--snapshot", path, "--drain", "gpu1", "-o", "json"]) == 0
    (moved,) = json.loads(capsys.readouterr().out)["placements"]
    assert (moved["pod"], moved["node"]) == ("default/held", "gpu2")
    assert main(["explain", "held", "--snapshot", path, "-o", "json"]) == 0
    said = capsys.readouterr()
    (note,) = json.loads(said.out)["notes"]
    assert f"metadata.annotations[{key}]" in note
    assert said.err == ""


@pytest.fixture
def hard() -> Node:
    """A node of 40 cards with half of all pairs joined: the best 12 take long to find."""
    draw = random.Random(4)  # noqa: S311  # no secret
    tokens = {pair: draw.choice(("NV1", "SYS")) for pair in itertools.combinations(range(40), 2)}
    links = tuple(
        tuple("X" if a == b else tokens[min(a, b), max(a, b)] for b in range(40)) for a in range(40)
    )
    cards = (Card(minor=m, uuid=f"GPU-{m}", model="T4", memory_bytes=1 << 34) for m in range(40))
    return Node(name="gpu1", cards=tuple(cards), links=links)


def test_cards_that_are_not_proven_the_best_are_told_with_the_gap(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], hard: Node
) -> None:
    asks = pod("large", 1200, 0)
    (tmp_path / "pod.json").write_text(json.dumps(asks))
    path = write(tmp_path, node(hard), asks)
    what_if = ["what-if", "--snapshot", path, "--pod", str(tmp_path / "pod.json")]
    assert main([*what_if, "-o", "json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert main(["explain", "large", "--snapshot", path, "-o", "json"]) == 0
    explained = json.loads(capsys.readouterr().out)
    assert schemas.problems(schemas.load("what-if"), planned) == []
    assert schemas.problems(schemas.load("explain"), explained) == []
    gap = planned["placements"][0]["gap"]
    assert gap == explained["nodes"]["gpu1"]["gap"]
    assert gap["level"] == "SYS"  # no twelve cards are all joined
    assert gap["cost"] > 0
    assert main(what_if) == 0
    assert "not proven best: the search was stopped" in capsys.readouterr().out


def test_cards_that_are_proven_the_best_carry_no_gap(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node())
    assert main(["what-if", "--snapshot", path, "--pod", half(tmp_path), "-o", "json"]) == 0
    assert "gap" not in json.loads(capsys.readouterr().out)["placements"][0]
