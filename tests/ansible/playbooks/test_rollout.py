"""site.yml goes over hosts in batches, and stops before a change where a check fails."""

import pathlib
from typing import Any

import pytest

from tests.ansible.playbooks import recorder

pytestmark = pytest.mark.long

PLANES = ("cp1", "cp2", "cp3")


def site(gpu_hosts: int, **variables: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return three control planes and some GPU hosts, each with its variables by its name."""
    gpus = [f"gpu{number}" for number in range(1, gpu_hosts + 1)]
    return {
        "kube_control_plane": {name: variables.get(name, {}) for name in PLANES},
        "gpu_nodes": {name: variables.get(name, {}) for name in gpus},
    }


def sizes(run: recorder.Run) -> list[int]:
    return [len(batch) for batch in run.batches("gpustack_agent")]


def test_nine_hosts_change_one_first_then_by_quarters(tmp_path: pathlib.Path) -> None:
    run = recorder.play(tmp_path, site(9))
    assert run.status == 0, run.output
    assert sizes(run) == [1, 2, 2, 2, 2]
    assert run.batches("kube_scheduler") == [("cp1",), ("cp2",), ("cp3",)]


@pytest.mark.nightly
def test_the_command_line_sets_the_size_of_batches(tmp_path: pathlib.Path) -> None:
    run = recorder.play(tmp_path, site(4), '--extra-vars={"gpu_nodes_serial": ["50%"]}')
    assert run.status == 0, run.output
    assert sizes(run) == [2, 2]


@pytest.mark.parametrize("how", ["fails", pytest.param("vanishes", marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    "check", [pytest.param("preflight", marks=pytest.mark.nightly), "kube_scheduler/preflight"]
)
def test_one_of_three_control_planes_stops_all(
    tmp_path: pathlib.Path, how: str, check: str
) -> None:
    run = recorder.play(tmp_path, site(2, cp2={how: [check]}))
    assert run.status != 0
    assert run.changed == []
    # every check ran on every host all the same
    assert run.hosts("preflight")[-2:] == ["gpu1", "gpu2"]
    assert "because cp2 didn't pass" in " ".join(run.output.split())


@pytest.mark.parametrize("how", ["fails", pytest.param("vanishes", marks=pytest.mark.nightly)])
def test_a_gpu_host_that_fails_preflight_stops_all(tmp_path: pathlib.Path, how: str) -> None:
    run = recorder.play(tmp_path, site(2, gpu2={how: ["preflight"]}))
    assert run.status != 0
    assert run.changed == []


@pytest.mark.parametrize("tags", [(), ("--tags=kube_scheduler",)])
def test_a_host_that_cannot_be_reached_stops_all(
    tmp_path: pathlib.Path, tags: tuple[str, ...]
) -> None:
    away = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    run = recorder.play(tmp_path, site(1, cp3=away), *tags)
    assert run.status != 0
    assert run.changed == []


@pytest.mark.parametrize("how", [pytest.param("vanishes", marks=pytest.mark.nightly), "fails"])
@pytest.mark.parametrize(
    "role", [pytest.param("gpustack_extender", marks=pytest.mark.nightly), "kube_scheduler"]
)
def test_a_control_plane_that_is_lost_on_the_way_stops_the_rest(
    tmp_path: pathlib.Path, how: str, role: str
) -> None:
    run = recorder.play(tmp_path, site(1, cp2={how: [role]}))
    assert run.status != 0
    assert run.hosts("kube_scheduler") == ["cp1"]
    assert run.hosts("nvidia_driver") == []


@pytest.mark.nightly
@pytest.mark.parametrize("role", ["preflight", "gpustack_extender"])
@pytest.mark.parametrize("broken", ["cp1", "cp2", "cp3"])
def test_whichever_control_plane_breaks_gpu_hosts_are_untouched(
    tmp_path: pathlib.Path, broken: str, role: str
) -> None:
    run = recorder.play(tmp_path, site(2, **{broken: {"fails": [role]}}))
    assert run.status != 0
    assert [host for host in run.changed if host.startswith("gpu")] == []
    # at preflight none is changed, at apply none that comes after it
    planes = ["cp1", "cp2", "cp3"]
    passed = planes[: planes.index(broken)] if role == "gpustack_extender" else []
    assert run.hosts("kube_scheduler") == passed


BATCHES = '--extra-vars={"gpu_nodes_serial": [1, 2]}'


@pytest.mark.parametrize("how", ["fails", pytest.param("vanishes", marks=pytest.mark.nightly)])
def test_a_gpu_host_that_is_lost_on_the_way_stops_later_batches(
    tmp_path: pathlib.Path, how: str
) -> None:
    run = recorder.play(tmp_path, site(5, gpu3={how: ["nvidia_uvm"]}), BATCHES)
    assert run.status != 0
    assert run.hosts("nvidia_driver") == ["gpu1", "gpu2", "gpu3"]


@pytest.mark.nightly
def test_an_agent_that_is_not_ready_stops_later_batches(tmp_path: pathlib.Path) -> None:
    run = recorder.play(tmp_path, site(3, gpu1={"fails": ["gpustack_agent/verify"]}))
    assert run.status != 0
    assert run.hosts("gpustack_agent") == ["gpu1"]


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["fails", pytest.param("vanishes", marks=pytest.mark.nightly)])
def test_as_many_hosts_as_the_command_line_allows_may_be_lost(
    tmp_path: pathlib.Path, how: str
) -> None:
    allowed = "--extra-vars=gpu_nodes_max_fail_percentage=50"
    run = recorder.play(tmp_path, site(5, gpu3={how: ["nvidia_uvm"]}), BATCHES, allowed)
    assert run.status != 0
    assert run.hosts("gpustack_agent") == ["gpu1", "gpu2", "gpu4", "gpu5"]


@pytest.mark.nightly
@pytest.mark.parametrize(("limit", "changed"), [("gpu1", ["gpu1"]), ("cp1,gpu2", ["cp1", "gpu2"])])
def test_a_limited_run_changes_these_hosts_alone(
    tmp_path: pathlib.Path, limit: str, changed: list[str]
) -> None:
    run = recorder.play(tmp_path, site(2, cp2={"fails": ["preflight"]}), f"--limit={limit}")
    assert run.status == 0, run.output
    assert run.changed == changed
    assert run.hosts("preflight") == changed


@pytest.mark.parametrize(
    ("limit", "labelled", "tags"),
    [
        ("cp1,gpu2", "gpu2", ""),
        pytest.param("cp1,gpu2", "gpu2", "--tags=cluster_objects", marks=pytest.mark.nightly),
        pytest.param("all", "gpu1 gpu2", "--tags=cluster_objects", marks=pytest.mark.nightly),
        pytest.param("cp1", "", "", marks=pytest.mark.nightly),
        pytest.param("!gpu1", "gpu2", "", marks=pytest.mark.nightly),
    ],
)
def test_nodes_of_hosts_that_a_run_leaves_out_get_no_label(
    tmp_path: pathlib.Path, limit: str, labelled: str, tags: str
) -> None:
    run = recorder.play(tmp_path, site(2), f"--limit={limit}", *filter(None, [tags]))
    assert run.status == 0, run.output
    assert f"[cluster_objects] labels the nodes of [{labelled}]" in run.output


def test_a_host_of_both_groups_has_to_pass_as_both(tmp_path: pathlib.Path) -> None:
    groups = site(1)
    # its last check, after it has passed as a GPU host would
    groups["gpu_nodes"]["cp2"] = {}
    groups["kube_control_plane"]["cp2"] = {"fails": ["kube_scheduler/preflight"]}
    run = recorder.play(tmp_path, groups)
    assert run.status != 0
    assert run.changed == []


@pytest.mark.parametrize(
    "arguments", [[], pytest.param(["--tags=gpustack_extender"], marks=pytest.mark.nightly)]
)
def test_the_rights_of_an_older_extender_go_when_all_were_restarted(
    tmp_path: pathlib.Path, arguments: list[str]
) -> None:
    older = {"cluster_objects_older_extender": True}
    run = recorder.play(tmp_path, site(1, cp1=older), *arguments)
    assert run.status == 0, run.output
    came = [(entry.role, entry.host) for entry in run.entries]
    narrowed = came.index(("cluster_objects/narrow", "cp1"))
    assert all(came.index(("gpustack_extender", name)) < narrowed for name in PLANES)


@pytest.mark.nightly
def test_an_extender_that_a_limited_run_leaves_out_keeps_its_rights(tmp_path: pathlib.Path) -> None:
    older = {"cluster_objects_older_extender": True}
    run = recorder.play(tmp_path, site(1, cp1=older), "--limit=cp1,gpu1")
    assert run.status == 0, run.output
    assert run.hosts("gpustack_extender") == ["cp1"]
    assert run.hosts("cluster_objects/narrow") == []
