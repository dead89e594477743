"""``gpustack explain`` and the quota part of ``usage``: their answers, and the form of those."""

import json
import pathlib
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from gpustack.cli.main import main
from gpustack.model.node import Node
from gpustack.wire import schemas
from tests.cli.snapshots import KEYS, NODE, node, pod, quota, write

HOLDER = pod("holder", 60, 8, held=True)


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """Run with JSON output, and check it against the command's published schema."""
    status = main([*arguments, "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    schema = schemas.load(arguments[0])
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schemas.problems(schema, answer) == []
    return status, answer


def test_a_waiting_pod_gets_each_cards_reason_and_changes_that_help(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(), HOLDER, pod("big", 200, 64))
    status, answer = ask(capsys, "explain", "big", "--snapshot", path)
    assert status == 1
    assert answer["nodes"]["gpu1"]["cards"] == [{"minor": 0, "code": "NoWholeCard"}]
    changes = {each["kind"]: each for each in answer["changes"]}
    assert changes["fewer-cores"]["cores"] == 100
    assert changes["pods-end"]["names"] == ["default/holder"]
    assert changes["more-cards"]["count"] == 1
    assert changes["pods-end"]["placement"]["containers"][0]["minors"] == [0, 1]


def test_the_table_names_changes_and_where_the_pod_would_go(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(), HOLDER, pod("big", 200, 64))
    assert main(["explain", "big", "--snapshot", path]) == 1
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "WOULD FIT IF NODE CARDS"  # of 300 nodes it would be far below
    assert lines[lines.index("NODE ANSWER CARDS") + 1].endswith("NoWholeCard 0")
    assert "container 'main' asks 100 instead of 200 cores gpu1 main=1" in lines
    assert "pod default/holder ends gpu1 main=0,1" in lines


def test_nodes_that_refuse_a_pod_are_grouped_by_their_reason(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = (node(replace(NODE, name=f"gpu{number}")) for number in range(2, 6))
    cpus = (node(Node(name=f"cpu{number}")) for number in range(1, 3))
    path = write(tmp_path, node(), *nodes, *cpus, pod("big", 1600, 0))
    assert main(["explain", "big", "--snapshot", path]) == 1
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    at = lines.index("NODE ANSWER CARDS")
    assert lines[at + 1 :] == [
        "gpu1, gpu2, gpu3 and 2 more NoWholeCard: container 'main' on node gpu1: 16 whole cards "
        "wanted (best-effort), 2 of 2 could serve -",
        "cpu1, cpu2 NoCards: node cpu1 has no cards -",
    ]


def test_a_running_pod_is_told_why_it_is_there(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(), HOLDER)
    status, answer = ask(capsys, "explain", "holder", "--snapshot", path)
    assert status == 0
    assert answer["held"]["containers"][0]["uuids"] == ["GPU-0"]
    (other,) = answer["alternatives"]
    assert other["verdict"] == "worse"
    assert (other["criterion"], other["chosen"], other["other"]) == ("lowest minors", "0", "1")


def test_a_quota_in_the_snapshot_refuses_and_is_shown(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = quota('{"default": {"quota": {"T4": 0.75}, "pool": []}}')
    path = write(tmp_path, node(), HOLDER, pod("second", 50, 8), limits)
    status, answer = ask(capsys, "explain", "second", "--snapshot", path)
    assert status == 1
    assert answer["nodes"]["gpu1"]["code"] == "QuotaExceeded"
    assert "holder 0.6" in answer["nodes"]["gpu1"]["message"]
    changes = {each["kind"]: each for each in answer["changes"]}
    assert changes["fewer-cores"]["cores"] == 15
    assert "1.1 instead of 0.75 T4" in changes["more-quota"]["text"]
    assert answer["quota"]["models"][0]["used"] == 0.6


def test_a_pool_that_the_namespace_may_not_use_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = quota('{"default": {"quota": {"T4": 8}, "pool": ["red"]}}')
    there = node(labels={"gaia.tencent.com/gpu-pool": "blue"})
    path = write(tmp_path, there, pod("first", 50, 8), limits)
    _, answer = ask(capsys, "explain", "first", "--snapshot", path)
    assert answer["nodes"]["gpu1"]["code"] == "PoolForbidden"
    (change,) = answer["changes"]
    assert change["text"] == "the quota of namespace 'default' allows pool 'blue'"


def test_usage_shows_every_namespace_with_a_quota(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = quota('{"default": {"quota": {"T4": 2, "A100": 1}}, "idle": {"pool": ["red"]}}')
    path = write(tmp_path, node(), HOLDER, limits)
    status, answer = ask(capsys, "usage", "--snapshot", path)
    assert status == 0
    models = {each["model"]: each for each in answer["quota"][0]["models"]}
    assert (models["T4"]["cards"], models["T4"]["used"]) == (2, 0.6)
    assert models["T4"]["pods"] == [{"name": "holder", "cards": 0.6}]
    assert main(["usage", "--snapshot", path]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[-4][2:4] == ["ALLOCATED(cards)", "QUOTA(cards)"]
    assert ["default", "T4", "0.6", "2", "all", "holder=0.6"] in lines
    assert ["idle", "none", "-", "-", "red", "-"] in lines


def error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 2
    captured = capsys.readouterr()
    assert not captured.out
    assert len(captured.err.splitlines()) == 1
    return captured.err


def test_a_limit_that_is_no_number_is_named_with_file_place_and_field(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(), pod("odd", "abc", 8))
    said = error(capsys, "explain", "odd", "--snapshot", path)
    assert f"{path}: items[1] (pod default/odd)" in said
    assert f"spec.containers[0].resources.limits[{KEYS.vcuda_core}]: 'abc'" in said


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"default": {"quota": {"T4": 0.125}}}', "default.quota.T4: 0.125 has more than two"),
        ('{"default": {"quotas": {}}}', "default: quotas is not known here"),
        ("{", "is not JSON"),
    ],
)
def test_a_broken_quota_is_named_with_file_and_place(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], text: str, named: str
) -> None:
    path = write(tmp_path, node(), pod("first", 50, 8), quota(text))
    said = error(capsys, "explain", "first", "--snapshot", path)
    assert f"{path}: items[2] (configmap kube-system/gpuquota): data.gpu_quota: " in said
    assert named in said
    assert "the extender goes by the last quota" in said


def test_a_broken_quota_keeps_no_card_from_usage(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(), pod("first", 50, 8, held=True), quota("{"))
    assert main(["usage", "--snapshot", path]) == 1
    shown = capsys.readouterr()
    assert "default/first/" in shown.out
    assert "gpu_quota: is not JSON" in shown.err


def test_a_node_that_describes_no_machine_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = node()
    broken["metadata"]["annotations"][KEYS.gpu_devices] = "{"
    path = write(tmp_path, broken, pod("first", 50, 8))
    assert main(["explain", "first", "--snapshot", path]) == 1
    said = capsys.readouterr()
    assert "NoCards" in said.out
    assert "items[0] (node gpu1)" in said.err


def test_a_pod_that_has_ended_is_said_to_hold_nothing(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = {**pod("done", 50, 8), "status": {"phase": "Succeeded"}}
    path = write(tmp_path, node(), ended)
    assert "has ended (Succeeded)" in error(capsys, "explain", "done", "--snapshot", path)


@pytest.mark.parametrize(
    ("item", "named"),
    [
        (3, "items[0]: must be an object"),
        ({"metadata": {}}, "items[0].metadata.name: is missing"),
        ({"metadata": {"name": 3}}, "items[0].metadata.name: must be a text"),
        ({"metadata": {"name": "n", "labels": {"a": 1}}}, "metadata.labels[a]: must be a text"),
        ({"metadata": {"name": "n"}, "spec": []}, "items[0].spec: must be an object"),
        ({"metadata": {"name": "n"}, "spec": {"containers": {}}}, "containers: must be an array"),
        ({"metadata": {"name": "n"}, "spec": {"containers": [1]}}, "containers[0]: must be an"),
        (
            {"metadata": {"name": "n"}, "spec": {"containers": [{"resources": {"limits": 1}}]}},
            "items[0].spec.containers[0].resources.limits: must be an object",
        ),
    ],
)
def test_an_item_of_another_shape_is_named_by_its_place(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], item: object, named: str
) -> None:
    assert named in error(capsys, "usage", "--snapshot", write(tmp_path, item))
