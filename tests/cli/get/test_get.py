"""``gpustack get`` on a snapshot: lists, filters, sums, forms, and what tenants wrote."""

import json
import pathlib
from dataclasses import replace
from typing import Any

import pytest
import yaml

from gpustack.cli.main import main
from gpustack.wire import schemas
from tests.cli.snapshots import CARDS, KEYS, NODE, node, pod, quota, write

ESCAPE = "\x1b"
POOL = {"gaia.tencent.com/gpu-pool": "train", "zone": "a"}
OTHER = replace(NODE, name="gpu2", cards=tuple(replace(c, model="NVIDIA A100") for c in CARDS))


def waiting(name: str, message: str, **labels: str) -> dict[str, Any]:
    """Return a pod that the scheduler could not place."""
    item = pod(name, 50, 8)
    item["metadata"]["labels"] = labels
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    item["status"] = {"conditions": [condition]}
    return item


@pytest.fixture
def snapshot(tmp_path: pathlib.Path) -> str:
    picky = waiting("picky", "no A100 is free")
    picky["metadata"]["annotations"] = {"tencent.com/gpu-model": "A100"}
    elsewhere = waiting("elsewhere", "no node", app="web")
    elsewhere["metadata"]["namespace"] = "team"
    items = [
        node(labels=POOL), node(OTHER), pod("holder", 60, 8, held=True), picky, elsewhere,
        quota('{"default": {"quota": {"T4": 0.5}}, "team": {"quota": {"A100": 2}}}'),
    ]  # fmt: skip
    return write(tmp_path, *items)


def names(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Return what `get ... -o name` prints."""
    assert main(["get", *words, "-o", "name"]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("kind", ["pods", "nodes", "cards", "quotas"])
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_each_list_has_the_form_of_its_schema(
    snapshot: str, kind: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["get", kind, "--snapshot", snapshot, "-o", form]) == 0
    text = capsys.readouterr().out
    value = json.loads(text) if form == "json" else yaml.safe_load(text)
    assert schemas.problems(schemas.load("get"), value) == []
    assert list(value) == [kind, "sums"]
    assert value[kind] != []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("pods", ["default/holder", "default/picky", "team/elsewhere"]),
        ("pods -A", ["default/holder", "default/picky", "team/elsewhere"]),
        ("pods -n team", ["team/elsewhere"]),
        ("pods --node gpu1", ["default/holder"]),
        ("pods --pool train", ["default/holder"]),
        ("pods --model t4", ["default/holder", "team/elsewhere"]),
        ("pods --model A100", ["default/picky", "team/elsewhere"]),
        ("pods --state Waiting -l app!=web", ["default/picky"]),
        ("pods -l app", ["team/elsewhere"]),
        ("nodes", ["gpu1", "gpu2"]),
        ("nodes -n default", ["gpu1"]),
        ("nodes --model A100", ["gpu2"]),
        ("nodes -l zone=a", ["gpu1"]),
        ("cards --node gpu2", ["GPU-0", "GPU-1"]),
        ("cards -n default", ["GPU-0"]),
        ("quotas", ["default", "team"]),
        ("quotas --model NVIDIA-A100", ["team"]),
    ],
)
def test_filters_leave_what_meets_all_of_them(
    snapshot: str, words: str, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert names(capsys, *words.split(), "--snapshot", snapshot) == expected


def test_pods_are_summed_by_state(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "pods", "--snapshot", snapshot]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAMESPACE", "POD", "STATE", "CARDS", "NODE", "AGE", "REASON"]
    assert " ".join(lines[2].split()) == "default picky Waiting 0.5 - - no A100 is free"
    assert [line.split() for line in lines[-3:]] == [
        ["Waiting", "2", "1"],
        ["Running", "1", "0.6"],
        ["all", "3", "1.6"],
    ]


def test_a_quota_that_is_exceeded_has_less_than_nothing_left(
    snapshot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["get", "quotas", "--snapshot", snapshot, "--no-headers"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["default", "T4", "0.6", "0.5", "-0.1"], ["team", "A100", "0", "2", "2"]]


def test_wide_has_more_columns(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "cards", "--snapshot", snapshot, "-o", "wide"]) == 0
    heading, first, *_ = capsys.readouterr().out.splitlines()
    assert heading.split()[-6:] == ["UUID", "POOL", "NODE-STATE", "NUMA", "REASON", "HELD-BY"]
    assert first.split()[-6:] == ["GPU-0", "train", "Ready", "-", "-", "default/holder"]


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
def test_what_others_wrote_stays_on_its_line_and_is_bounded(
    tmp_path: pathlib.Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(), waiting("web", f"a\n{ESCAPE}[2J\u202e" + "x" * 100_000))
    assert main(["get", "pods", "--snapshot", path, "-o", form]) == 0
    shown = capsys.readouterr().out
    assert len(shown) < 3000
    assert all(char.isprintable() or char == "\n" for char in shown)
    if form == "table":
        assert r"a\n\x1b[2J\u202e" in shown.splitlines()[1]


def test_the_reason_of_a_waiting_pod_is_not_cut_by_preemption(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = (
        "0/2 nodes are available: 1 Insufficient tencent.com/vcuda-core, "
        "1 QuotaExceeded: the GPU quota of the namespace is used up."
    )
    search = (
        " preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )
    path = write(tmp_path, node(), waiting("web", refused + search))
    assert main(["get", "pods", "--snapshot", path, "--no-headers"]) == 0
    assert capsys.readouterr().out.rstrip().endswith(refused)


def test_a_node_that_answers_nonsense_is_named_and_hides_no_other(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = node(OTHER)
    bad["metadata"]["annotations"] = {KEYS.gpu_devices: f'{{"version": "{ESCAPE}"}}'}
    path = write(tmp_path, node(), bad)
    assert main(["get", "nodes", "--snapshot", path, "--no-headers"]) == 1
    said = capsys.readouterr()
    assert [line.split()[:2] for line in said.out.splitlines()] == [
        ["gpu1", "Ready"],
        ["gpu2", "Unreadable"],
    ]
    [line] = said.err.splitlines()
    assert "node gpu2" in line
    assert ESCAPE not in line


def test_a_broken_quota_keeps_no_one_from_the_pods(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(), pod("web", 50, 8), quota("{"))
    assert names(capsys, "pods", "--snapshot", path) == ["default/web"]
    assert main(["get", "quotas", "--snapshot", path]) == 2
    assert "gpu_quota: is not JSON" in capsys.readouterr().err


def test_pods_whose_cards_are_unknown_say_why(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bound = pod("bound", 50, 8)
    bound["spec"]["nodeName"] = "gpu1"
    path = write(tmp_path, node(), bound, pod("wrong", 150, 8), pod("gone", 60, 8, held=True))
    assert main(["get", "pods", "--snapshot", path, "-o", "json"]) == 1
    found = {each["pod"]: each for each in json.loads(capsys.readouterr().out)["pods"]}
    assert found["bound"]["state"] == "Undecided"
    assert "no decision stands on it" in found["bound"]["reason"]
    assert (found["wrong"]["state"], found["wrong"]["cards"]) == ("Waiting", 0)
    assert "150 is neither a share" in found["wrong"]["reason"]


def test_a_running_pod_of_a_lost_node_keeps_its_amount(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(OTHER), pod("web", 60, 8, held=True))
    main(["get", "pods", "--snapshot", path, "--no-headers"])
    assert capsys.readouterr().out.split()[:5] == ["default", "web", "Running", "0.6", "gpu1"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("quotas --node gpu1", "quotas are of namespaces"),
        ("nodes --state Waiting", "--state is of pods"),
        ("pods -w", "-w/--watch: not allowed with argument --snapshot"),
        ("pods -n a -A", "not allowed with argument"),
        ("pods -l a==b=c", "'a==b=c' is not KEY=VALUE"),
        ("things", "invalid choice: 'things'"),
    ],
)
def test_wrong_use_is_told_and_ends_with_2(
    snapshot: str, words: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["get", *words.split(), "--snapshot", snapshot])
    assert problem in capsys.readouterr().err


def test_an_unknown_node_is_named(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "pods", "--node", "gpu9", "--snapshot", snapshot]) == 2
    assert capsys.readouterr().err.endswith("no node 'gpu9'; see gpustack get nodes\n")


def test_an_empty_list_says_so(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "pods", "-n", "nowhere", "--snapshot", snapshot, "--no-headers"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "gpustack: no pods found\n")
