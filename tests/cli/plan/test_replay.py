"""`gpustack replay` on a snapshot: its JSON, its tables, progress, and errors by place."""

import io
import json
import pathlib
from typing import Any

import pytest

from gpustack.cli.main import main
from gpustack.wire import schemas
from tests.cli.snapshots import node, pod, write

HEAD = "arrival,duration,cores,memory,count\n"


@pytest.fixture
def snapshot(tmp_path: pathlib.Path) -> str:
    return write(tmp_path, node(), pod("holder", 60, 8, held=True))


@pytest.fixture
def trace(tmp_path: pathlib.Path) -> str:
    return written(tmp_path, HEAD + "0,10,40,8,1\n0,10,50,8,1\n5,10,50,8,2\n")


def written(folder: pathlib.Path, text: str) -> str:
    path = folder / "trace.csv"
    path.write_text(text)
    return str(path)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["replay", *arguments, "-o", "json"])
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert schemas.problems(schemas.load("replay"), value) == []
    return status, value


def test_policies_stand_side_by_side_over_the_same_moments(
    snapshot: str, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--snapshot", snapshot, "--trace", trace, "--policies", "exact,spread")
    status, value = answer(capsys, *asked, "--points", "5")
    assert status == 0
    assert value["cards"] == 2
    exact, spread = value["policies"]
    assert (exact["policy"], spread["policy"]) == ("exact", "spread")
    assert [each["at"] for each in exact["series"]] == [each["at"] for each in spread["series"]]
    first = exact["series"][0]
    assert (first["utilisation"], first["waiting"]) == (0.75, 0)
    assert (exact["placed"], exact["unplaced"]) == (4, 0)
    assert exact["mean"]["wait_seconds"] == 1.25
    assert [each["at"] for each in exact["series"]] == [0, 1.25, 2.5, 3.75, 5]
    last = exact["series"][-1]
    assert (last["utilisation"], last["waiting"]) == (1.0, 1)


def test_the_same_seed_gives_the_same_answer(
    snapshot: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"0,{seconds},{20 + seconds},8,1\n" for seconds in range(1, 30))
    asked = ("--snapshot", snapshot, "--trace", written(tmp_path, HEAD + rows))
    one = answer(capsys, *asked, "--seed", "1")
    assert one == answer(capsys, *asked, "--seed", "1")
    assert one != answer(capsys, *asked, "--seed", "2")


def test_a_pod_that_never_fits_makes_the_status_one(
    snapshot: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, HEAD + "0,10,200,0,3\n")
    status, value = answer(capsys, "--snapshot", snapshot, "--trace", path)
    assert status == 1
    assert [each["unplaced"] for each in value["policies"]] == [3, 3, 3, 3]


def test_people_read_a_table_over_time_and_one_of_means(
    snapshot: str, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "--snapshot", snapshot, "--trace", trace, "--policies", "fgd"]) == 0
    shown, told = capsys.readouterr()
    over_time, means = (part.splitlines() for part in shown.split("\n\n"))
    assert over_time[0].split() == ["SECONDS", "fgd:ALLOC", "fgd:FRAG", "fgd:WAIT(pods)"]
    assert over_time[1].split()[:2] == ["0", "75.0%"]
    assert means[1].split()[:4] == ["fgd", "4", "0", "1"]
    assert told == ""


def test_on_a_terminal_progress_is_told_on_stderr(
    snapshot: str, trace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", terminal)
    assert main(["replay", "--snapshot", snapshot, "--trace", trace, "--policies", "exact"]) == 0
    assert terminal.getvalue() == "\rexact: 50 % of 4 pods\rexact: 100 % of 4 pods\n"
    assert "%  of" not in capsys.readouterr().out


def test_a_node_out_of_service_plays_no_part(
    tmp_path: pathlib.Path, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--snapshot", write(tmp_path, {**node(), "spec": {"unschedulable": True}}))
    status, value = answer(capsys, *asked, "--trace", trace, "--policies", "exact")
    assert (status, value["cards"], value["policies"][0]["placed"]) == (1, 0, 0)


@pytest.mark.parametrize("policies", ["exact,luck", "exact,exact", ""])
def test_unknown_policies_end_with_status_two(
    snapshot: str, trace: str, policies: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["replay", "--snapshot", snapshot, "--trace", trace, "--policies", policies])
    assert ended.value.code == 2
    assert "of exact,original,spread,fgd" in capsys.readouterr().err


def test_a_broken_trace_is_named_by_file_line_and_column(
    snapshot: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, HEAD + "0,10,50,8,1\n0,10,150,8,1\n")
    assert main(["replay", "--snapshot", snapshot, "--trace", path]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"gpustack: {path}:3: cores: 150 is neither")
