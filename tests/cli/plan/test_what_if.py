"""`gpustack what-if` on a snapshot: its JSON, its exit status, and errors that name the place."""

import io
import json
import pathlib
from typing import Any

import pytest

from gpustack.cli.main import main
from gpustack.model.policies import NAMES
from tests.cli.plan.planning import answer, two_nodes, written
from tests.cli.snapshots import KEYS, node, pod, quota, write


@pytest.fixture
def snapshot(tmp_path: pathlib.Path) -> str:
    return two_nodes(tmp_path)


@pytest.fixture
def half(tmp_path: pathlib.Path) -> str:
    return written(tmp_path, pod("half", 50, 8))


def container(memory: str) -> dict[str, Any]:
    limits = {KEYS.vcuda_core: "50", KEYS.vcuda_memory: memory}
    return {"name": "main", "resources": {"limits": limits}}


def test_placed_copies_list_cards_and_the_rest_every_nodes_reason(
    snapshot: str, half: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, value = answer(capsys, "--snapshot", snapshot, "--pod", half, "--count", "20")
    assert status == 1
    assert value["placements"][0] == {
        "pod": "default/half-1",
        "node": "gpu1",
        "containers": [{"name": "main", "minors": [1], "uuids": ["GPU-1"]}],
    }
    assert len(value["placements"]) == 6
    assert len(value["unplaced"]) == 14
    assert {each["code"] for each in value["unplaced"][0]["nodes"].values()} == {"InsufficientCore"}
    assert set(value["unplaced"][0]["nodes"]) == {"gpu1", "gpu2"}


def test_every_container_has_an_entry_and_init_containers_their_own_list(
    snapshot: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = pod("p", 50, 8)
    side = {**item["spec"]["containers"][0], "name": "side", "restartPolicy": "Always"}
    item["spec"] = {
        "containers": [{"name": "log"}, *item["spec"]["containers"], {"name": "proxy"}],
        "initContainers": [{"name": "wait"}, side],
    }
    path = written(tmp_path, {"kind": "Job", "spec": {"template": item}})
    status, value = answer(capsys, "--snapshot", snapshot, "--pod", path)
    assert status == 0
    [placed] = value["placements"]
    assert [each["name"] for each in placed["containers"]] == ["log", "main", "proxy"]
    assert [len(each["minors"]) for each in placed["containers"]] == [0, 1, 0]
    [side_entry] = placed["initContainers"]
    assert (side_entry["name"], len(side_entry["minors"])) == ("side", 1)


@pytest.mark.parametrize("policy", NAMES)
def test_every_policy_places_a_pod_that_fits(
    snapshot: str, half: str, policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, value = answer(capsys, "--snapshot", snapshot, "--pod", half, "--policy", policy)
    assert status == 0
    assert value["placements"][0]["pod"] == "default/half"
    assert value["placements"][0]["node"] == ("gpu2" if policy == "spread" else "gpu1")


def test_capacity_says_how_many_more_and_where(
    snapshot: str, half: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--snapshot", snapshot, "--pod", half, "--capacity")
    status, value = answer(capsys, *asked, schema="what-if-capacity")
    assert (status, value["capacity"], value["nodes"]) == (0, 6, {"gpu1": 2, "gpu2": 4})
    big = written(tmp_path, pod("big", 800, 0))
    asked = ("--snapshot", snapshot, "--pod", big, "--capacity")
    assert answer(capsys, *asked, schema="what-if-capacity")[0] == 1


def test_the_pod_of_a_file_is_the_one_that_asks_for_a_gpu(
    snapshot: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.yaml"
    launcher = {"kind": "Pod", "spec": {"containers": [{"name": "launcher"}]}}
    worker = pod("worker", 50, 8)
    path.write_text("\n---\n".join(json.dumps(each) for each in (launcher, worker)))
    status, value = answer(capsys, "--snapshot", snapshot, "--pod", str(path))
    assert (status, value["placements"][0]["pod"]) == (0, "default/worker")
    path.write_text("\n---\n".join(json.dumps(pod(name, 50, 8)) for name in ("a", "b")))
    assert main(["what-if", "--snapshot", snapshot, "--pod", str(path)]) == 2
    told = capsys.readouterr().err
    assert told == f"gpustack: {path}: 2 pods ask for a GPU (default/a, default/b); leave one\n"


def test_a_demand_that_the_api_server_would_refuse_is_named_by_line(
    snapshot: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = pod("half", 50, 8)
    item["spec"]["tolerations"] = [{"operator": "Exist"}]
    path = tmp_path / "pod.yaml"
    path.write_text(json.dumps(item, indent=1))
    assert main(["what-if", "--snapshot", snapshot, "--pod", str(path)]) == 2
    line = 1 + path.read_text().splitlines().index('    "operator": "Exist"')
    place = f"{path}:{line}: spec.tolerations[0].operator"
    assert capsys.readouterr().err == f"gpustack: {place}: 'Exist' is not Equal, Exists, Gt or Lt\n"


def test_drain_copies_and_new_nodes_may_be_asked_together(
    snapshot: str, half: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, value = answer(
        capsys, "--snapshot", snapshot, "--drain", "gpu1", "--add-nodes", "1", "--like", "gpu1",
        "--pod", half, "--count", "6",
    )  # fmt: skip
    assert status == 0
    assert value["placements"][0]["pod"] == "default/holder"
    assert {each["node"] for each in value["placements"]} == {"gpu2", "gpu1-new-1"}
    assert len(value["placements"]) == 7


def test_a_quota_in_the_snapshot_is_kept(
    half: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = quota('{"default": {"quota": {"T4": 1.2}, "pool": []}}')
    path = write(tmp_path, node(), pod("holder", 60, 8, held=True), limit)
    status, value = answer(capsys, "--snapshot", path, "--pod", half, "--count", "2")
    assert (status, len(value["placements"])) == (1, 1)
    assert value["unplaced"][0]["nodes"]["gpu1"]["code"] == "QuotaExceeded"


def test_fgd_measures_by_the_trace_that_is_given(
    snapshot: str, half: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival,duration,cores,memory\n0,1,40,8\n")
    status, value = answer(
        capsys, "--snapshot", snapshot, "--pod", half, "--policy", "fgd", "--workload", str(trace)
    )
    # 40 are left beside the holder, which that workload can use in full: card 0 stays as it is.
    assert (status, value["placements"][0]["containers"][0]["minors"]) == (0, [1])


def test_people_read_a_line_a_pod_and_a_line_for_all_that_have_one_reason(
    snapshot: str, half: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["what-if", "--snapshot", snapshot, "--pod", half, "--count", "9"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["POD", "NODE", "CARDS"]
    assert lines[1].split() == ["default/half-1", "gpu1", "main=1"]
    assert lines[-1].split(maxsplit=3)[-1].split(maxsplit=1) == ["3", "InsufficientCore on 2 nodes"]
    assert lines[-1].startswith("default/half-7 .. default/half-9")
    assert main(["what-if", "--snapshot", snapshot, "--pod", half, "--capacity"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["TOTAL", "6"]


def test_a_pod_may_come_from_a_pipe(
    snapshot: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(pod("piped", 50, 8)).encode()))
    )
    status, value = answer(capsys, "--snapshot", snapshot, "--pod", "-")
    assert (status, value["placements"][0]["pod"]) == (0, "default/piped")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "--pod is needed"),
        (["--pod", "f", "--capacity", "--count", "3"], "leave --count away"),
        (["--pod", "f", "--capacity", "--drain", "n"], "two questions"),
        (["--drain", "n", "--count", "3"], "there is none"),
        (["--pod", "f", "--add-nodes", "3"], "go together"),
        (["--pod", "f", "--like", "n"], "go together"),
        (["--pod", "f", "--workload", "t"], "--policy fgd"),
        (["--drain", "n,"], "'n,' is not NAME or NAME,NAME"),
        (["--pod", "f", "--count", "0"], "'0' is not a whole number from 1"),
        (["--pod", "f", "--policy", "luck"], "invalid choice"),
    ],
)
def test_options_without_a_question_end_with_status_two(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["what-if", "--snapshot", "s", *arguments])
    assert ended.value.code == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (pod("p", "abc", 8), f":1: spec.containers[0].resources.limits[{KEYS.vcuda_core}]: "),
        (pod("p", 150, 8), "150 is neither a share"),
        (
            {**pod("p", 50, 8), "spec": {"containers": [container("8Gi")]}},
            f":1: spec.containers[0].resources.limits[{KEYS.vcuda_memory}]: "
            "asks 8589934592 units of 256 MiB (2 EiB); for 8 GiB write 32",
        ),
        (
            {"kind": "Job", "spec": {"template": pod("p", 50, 0)}},
            f":1: spec.template.spec.containers[0].resources.limits[{KEYS.vcuda_core}]: a share",
        ),
        ({"spec": {"containers": [{"name": "a"}]}}, "asks for no GPU; set tencent.com/vcuda-core"),
        ({"kind": "Pod"}, "spec.containers: is missing"),
    ],
)
def test_a_pod_that_cannot_be_asked_for_is_named_by_file_and_field(
    snapshot: str, tmp_path: pathlib.Path, value: object, named: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = written(tmp_path, value)
    assert main(["what-if", "--snapshot", snapshot, "--pod", path]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"gpustack: {path}:")
    assert named in line


def test_a_file_or_node_that_is_not_there_is_named(
    snapshot: str, half: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["what-if", "--snapshot", snapshot, "--pod", "/nowhere/pod"]) == 2
    assert "/nowhere/pod: No such file" in capsys.readouterr().err
    assert main(["what-if", "--snapshot", snapshot, "--drain", "gpu9"]) == 2
    assert "no node is named 'gpu9'" in capsys.readouterr().err
    assert main(["what-if", "--snapshot", snapshot, "--drain", "gpu9,gpu1", "--drain", "gpu8"]) == 2
    assert capsys.readouterr().err == "gpustack: no node is named 'gpu9' or 'gpu8'\n"
    more = ["--add-nodes", "2", "--like", "gpu9"]
    assert main(["what-if", "--snapshot", snapshot, "--pod", half, *more]) == 2
    assert "no node is named 'gpu9'" in capsys.readouterr().err
