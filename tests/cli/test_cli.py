"""The command line on a snapshot: tables, JSON, exit status, and errors that name the place."""

import json
import pathlib
import subprocess
import sys

import pytest

from gpustack.cli.main import main
from gpustack.wire import schemas
from tests.cli.snapshots import node, pod, write


@pytest.fixture
def snapshot(tmp_path: pathlib.Path) -> str:
    items = [node(), pod("holder", 60, 8, held=True), pod("small", 50, 8), pod("big", 200, 64)]
    return write(tmp_path, *items)


def test_usage_names_the_tenant_and_the_free_amounts(
    snapshot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["usage", "--snapshot", snapshot, "-o", "json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert schemas.problems(schemas.load("usage"), value) == []
    first, second = value["cards"]
    assert (first["free_cores"], first["free_memory_units"]) == (40, 56)
    assert first["tenants"][0]["pod"] == "holder"
    assert (second["free_cores"], second["tenants"]) == (100, [])


def test_usage_prints_a_line_a_tenant(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "--snapshot", snapshot]) == 0
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.split()[:4] == ["NODE", "NODE-STATE", "CARD", "MODEL"]
    assert "default/holder/main" in first
    assert second.split()[-3:] == ["-", "0", "0"]


def test_every_amount_of_usage_has_its_unit(
    snapshot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["usage", "--snapshot", snapshot]) == 0
    heading, first, _ = [line.split() for line in capsys.readouterr().out.splitlines()]
    shown = {name: cell for name, cell in zip(heading, first[:3] + first[4:], strict=False)}
    amounts = {name: cell for name, cell in shown.items() if "(" in name}
    assert amounts == {
        "FREE-CORE(%)": "40",
        "FREE-MEMORY(GiB)": "14",
        "CORE(%)": "60",
        "MEMORY(GiB)": "2",
    }


def test_a_pod_of_two_cards_has_each_of_them_once(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(), pod("pair", 200, 0, held=True))
    assert main(["usage", "--snapshot", path, "-o", "json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert schemas.problems(schemas.load("usage"), value) == []
    parts = [(each["cores"], each["memory_units"]) for c in value["cards"] for each in c["tenants"]]
    assert parts == [(100, 64), (100, 64)]
    assert main(["usage", "--snapshot", path]) == 0
    _, *lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[-2:] for line in lines] == [["100", "16"], ["100", "16"]]


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "Ready"),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, "NotReady"),
        ({"spec": {"unschedulable": True}}, "cordoned"),
        ({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}, "tainted gpu"),
    ],
)
def test_usage_tells_the_state_of_each_node(
    fields: dict[str, object],
    state: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write(tmp_path, {**node(), **fields})
    assert main(["usage", "--snapshot", path]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith(f"gpu1  {state}  ")
    assert main(["usage", "--snapshot", path, "-o", "json"]) == 0
    [first, _] = json.loads(capsys.readouterr().out)["cards"]
    assert first["node_states"] == ([] if state == "Ready" else [state])


def test_explain_says_yes_with_the_cards(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "small", "--snapshot", snapshot, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["nodes"]["gpu1"]["containers"][0]["minors"] == [1]


def test_explain_says_no_with_a_code_and_status_one(
    snapshot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "default/big", "--snapshot", snapshot, "-o", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["nodes"]["gpu1"]["code"] == "NoWholeCard"


def test_explain_of_a_holder_says_where(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "holder", "--snapshot", snapshot]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["gpu1", "holds", "main=0"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "is not JSON"),
        ('{"kind": "Pod"}', 'kind: must be "List"'),
        ('{"kind": "List"}', "items: must be an array"),
        ('{"kind": "List", "items": [{}]}', "items[0].metadata.name: is missing"),
        ('{"kind": "List", "items": [7]}', "items[0]: must be an object"),
        ("[" * 100_000, "is nested too deeply"),
    ],
)
def test_a_broken_snapshot_is_refused_by_place(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], text: str, named: str
) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    assert main(["usage", "--snapshot", str(path)]) == 2
    error = capsys.readouterr().err
    assert str(path) in error
    assert named in error


def test_a_pod_that_is_not_there_is_named(
    snapshot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "absent", "--snapshot", snapshot]) == 2
    assert "no pod default/absent" in capsys.readouterr().err


def test_no_client_of_kubernetes_is_loaded_before_a_cluster_is_read() -> None:
    code = "import gpustack.cli.main, sys; print('kubernetes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
