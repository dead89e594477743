"""Snapshots of another origin than an API server are refused by place, or answered in part."""

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, strategies

from gpustack.cli.main import main
from gpustack.wire.nodes import encode_devices
from tests.cli.snapshots import KEYS, NODE, node, pod


def document(*items: object) -> str:
    return json.dumps({"kind": "List", "items": list(items)})


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"metadata": []}, "items[0].metadata: must be an object"),
        ({"metadata": {"name": 7}}, "items[0].metadata.name: must be a text"),
        ({"spec": {"containers": {}}}, "items[0].spec.containers: must be an array"),
        ({"spec": {"containers": ["a"]}}, "items[0].spec.containers[0]: must be an object"),
        (
            {"spec": {"initContainers": [{"resources": {"limits": []}}]}},
            "items[0].spec.initContainers[0].resources.limits: must be an object",
        ),
        ({"status": {"phase": []}}, "items[0].status.phase: must be a text"),
        (
            {"kind": "Node", "status": {"addresses": ["a"]}},
            "items[0].status.addresses[0]: must be an object",
        ),
        (
            {"metadata": {"name": "x", "annotations": {KEYS.predicate_time: 1}}},
            f"items[0].metadata.annotations[{KEYS.predicate_time}]: must be a text",
        ),
    ],
)
def test_an_object_of_another_shape_is_refused_by_place(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], broken: dict[str, Any], named: str
) -> None:
    path = tmp_path / "broken.json"
    path.write_text(document({"kind": "Pod", "metadata": {"name": "x"}, **broken}))
    assert main(["usage", "--snapshot", str(path)]) == 2
    assert named in capsys.readouterr().err


def test_a_pod_without_a_namespace_lies_in_default(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = pod("plain", 50, 8)
    del item["metadata"]["namespace"]
    path = tmp_path / "snapshot.json"
    path.write_text(document(item))
    assert main(["explain", "plain", "--snapshot", str(path), "-o", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["pod"] == "default/plain"


def test_explain_of_impossible_limits_names_the_field(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "snapshot.json"
    path.write_text(document({"kind": "Node", "metadata": {"name": "gpu1"}}, pod("odd", 150, 8)))
    assert main(["explain", "odd", "--snapshot", str(path), "-o", "json"]) == 2
    assert f"limits[{KEYS.vcuda_core}]" in capsys.readouterr().err


def test_a_pod_that_has_ended_is_not_said_to_wait(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "snapshot.json"
    path.write_text(document({**pod("done", 50, 8), "status": {"phase": "Succeeded"}}))
    assert main(["explain", "done", "--snapshot", str(path)]) == 2
    assert "has ended" in capsys.readouterr().err


@pytest.fixture
def one_broken_node(tmp_path: pathlib.Path) -> str:
    sound = {"name": "gpu1", "annotations": {KEYS.gpu_devices: encode_devices(NODE)}}
    broken = {"name": "gpu2", "annotations": {KEYS.gpu_devices: "{"}}
    nodes = [{"kind": "Node", "metadata": metadata} for metadata in (broken, sound)]
    path = tmp_path / "snapshot.json"
    path.write_text(document(*nodes, pod("small", 50, 8)))
    return str(path)


def test_usage_shows_the_other_nodes_when_one_describes_no_machine(
    one_broken_node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["usage", "--snapshot", one_broken_node, "-o", "json"]) == 1
    said = capsys.readouterr()
    assert {card["node"] for card in json.loads(said.out)["cards"]} == {"gpu1"}
    assert f"(node gpu2): annotation {KEYS.gpu_devices}: is not JSON" in said.err


def test_explain_says_nocards_of_a_node_that_describes_no_machine(
    one_broken_node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "small", "--snapshot", one_broken_node, "-o", "json"]) == 0
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    assert nodes["gpu2"]["code"] == "NoCards"
    assert nodes["gpu1"]["containers"][0]["minors"] == [0]


def test_a_reader_that_stops_reading_gets_no_traceback(one_broken_node: str) -> None:
    command = [sys.executable, "-m", "gpustack.cli.main", "usage", "--snapshot", one_broken_node]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        said = child.stderr.read()
    assert b"Traceback" not in said
    assert b"BrokenPipe" not in said


NAMES = strategies.sampled_from(
    [
        *("kind", "metadata", "name", "spec", "containers", "resources", "limits", "status"),
        *("taints", "tolerations", "effect", "conditions", "nodeSelector", "ownerReferences"),
        *("annotations", "phase", KEYS.vcuda_core, KEYS.gpu_devices, KEYS.predicate_time),
    ]
)
LEAVES = strategies.none() | strategies.integers() | strategies.text(max_size=5)
JSON = strategies.recursive(
    LEAVES,
    lambda inner: (
        strategies.lists(inner, max_size=3) | strategies.dictionaries(NAMES, inner, max_size=6)
    ),
    max_leaves=20,
)


@given(kind=strategies.sampled_from(["Pod", "Node"]), item=strategies.dictionaries(NAMES, JSON))
def test_any_snapshot_ends_with_a_status_of_the_command(
    tmp_path_factory: pytest.TempPathFactory, kind: str, item: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("any") / "snapshot.json"
    path.write_text(document({**item, "kind": kind}, node(), pod("other", 50, 8, held=True)))
    for command in (["explain", "other"], ["usage"], ["what-if", "--drain", NODE.name]):
        assert main([*command, "--snapshot", str(path)]) in (0, 1, 2)
