"""A GPU host leaves a site that goes on: drained, cleaned, and forgotten by the cluster."""

import json
import pathlib
from typing import Any

import pytest

from tests.ansible.playbooks import recorder

pytestmark = pytest.mark.long

AWAY = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
PARTS = [
    "gpustack_agent",
    "python_service",
    "gpustack_hook",
    "nvidia_uvm",
    "nvidia_driver",
    "host_snapshot",
]
DRAIN, RESTORE = "node_maintenance/drain", "node_maintenance/restore"
FORGET, ASK = "cluster_objects/forget", "gpustack_hook/running_pods"


def remove(
    folder: pathlib.Path, *arguments: str, host: Any = "gpu1", **variables: Any
) -> recorder.Run:
    """Run the playbook on two control planes and three GPU hosts."""
    groups = {
        "kube_control_plane": {name: variables.get(name, {}) for name in ("cp1", "cp2")},
        "gpu_nodes": {name: variables.get(name, {}) for name in ("gpu1", "gpu2", "gpu3")},
    }
    told = [] if host is None else [f"--extra-vars={json.dumps({'remove_host': host})}"]
    return recorder.play(folder, groups, *told, *arguments, playbook="playbooks/remove_host.yml")


def came(run: recorder.Run) -> list[tuple[str, str]]:
    """Return role and host of each change and question, the first checks aside."""
    first = ("nvidia_driver/removal", "preflight/installed_agent", "preflight/playbook_variables")
    return [(one.role, one.host) for one in run.entries if one.role not in first]


def said(run: recorder.Run) -> str:
    return " ".join(run.output.split())


def test_a_host_is_drained_cleaned_and_forgotten_in_this_order(tmp_path: pathlib.Path) -> None:
    run = remove(tmp_path)
    assert run.status == 0, run.output
    removals = [(f"{part}/uninstall", "gpu1") for part in PARTS]
    assert came(run) == [
        (DRAIN, "gpu1"), (ASK, "gpu1"), *removals, ("preflight/clean", "gpu1"),
        (FORGET, "cp1"), (RESTORE, "gpu1"),
    ]  # fmt: skip
    assert "[cluster_objects/forget] labels the nodes of [gpu1]" in run.output
    assert "Take gpu1 out of the inventory" in said(run)


@pytest.mark.parametrize(
    ("host", "arguments", "words"),
    [
        (None, (), "remove_host names no host, and must name hosts of the group gpu_nodes"),
        (["gpu1", "gpu9"], (), "remove_host names gpu9, and must name"),
        ("gpu1", ("--limit=gpu1",), "--limit leaves out cp1, and nothing was removed"),
        ("gpu1", ("--limit=cp*,gpu2",), "--limit leaves out gpu1, and nothing was removed"),
        ("gpu1", ("--tags=gpustack_agent",), "has no tag gpustack_agent"),
    ],
)
def test_a_run_that_does_not_say_what_goes_is_refused(
    tmp_path: pathlib.Path, host: Any, arguments: tuple[str, ...], words: str
) -> None:
    run = remove(tmp_path, *arguments, host=host)
    assert run.status != 0
    assert run.entries == []
    assert words in said(run)


def test_a_host_of_both_groups_is_refused(tmp_path: pathlib.Path) -> None:
    groups: dict[str, Any] = {
        "kube_control_plane": {"cp1": {}, "gpu1": {}},
        "gpu_nodes": {"gpu1": {}},
    }
    run = recorder.play(
        tmp_path, groups, "--extra-vars=remove_host=gpu1", playbook="playbooks/remove_host.yml"
    )
    assert (run.status != 0, run.entries) == (True, [])
    assert "gpu1 is a control plane, too, and stays in the site" in said(run)


@pytest.mark.parametrize("host", ["gpu2", "cp1"])
def test_a_host_that_cannot_be_asked_keeps_all_as_they_are(
    tmp_path: pathlib.Path, host: str
) -> None:
    run = remove(tmp_path, host=["gpu1", "gpu2"], **{host: AWAY})
    assert run.status != 0
    assert came(run) == []
    assert f"{host} doesn't answer, and nothing was removed" in said(run)


def test_a_host_that_is_gone_for_good_is_only_forgotten(tmp_path: pathlib.Path) -> None:
    run = remove(tmp_path, "--extra-vars=remove_host_gone=true", gpu1=AWAY)
    assert came(run)[0] == (FORGET, "cp1")
    assert not [role for role, _ in came(run) if role.endswith("/uninstall")]


def test_pods_that_the_host_still_has_give_the_node_back(tmp_path: pathlib.Path) -> None:
    run = remove(tmp_path, host=["gpu1", "gpu2"], gpu1={"fails": [ASK]})
    assert run.status != 0
    assert came(run) == [(DRAIN, "gpu1"), (RESTORE, "gpu1")]
    assert "told to" in said(run)


@pytest.mark.parametrize("lost", [{"fails": [DRAIN]}, {"vanishes": ["nvidia_uvm/uninstall"]}])
def test_a_host_that_is_lost_ends_the_run_before_the_next(
    tmp_path: pathlib.Path, lost: dict[str, list[str]]
) -> None:
    run = remove(tmp_path, host=["gpu1", "gpu2"], gpu1=lost)
    assert run.status != 0
    assert "gpu2" not in {host for _, host in came(run)}
    assert (FORGET, "cp1") not in came(run)


def test_hosts_that_stay_cordoned_behind_one_that_fails_are_named(tmp_path: pathlib.Path) -> None:
    run = remove(tmp_path, host=["gpu1", "gpu2"], gpu2={"fails": ["nvidia_uvm/uninstall"]})
    assert run.status != 0
    assert (FORGET, "cp1") not in came(run)
    assert "gpu2 was not removed (told to). It may be cordoned, and lack some of our" in said(run)
    assert "clean by now stay cordoned, and known to the cluster: gpu1. Run the" in said(run)


def test_a_driver_that_others_need_keeps_the_hosts_pods(tmp_path: pathlib.Path) -> None:
    run = remove(tmp_path, host=["gpu1", "gpu2"], gpu2={"fails": ["nvidia_driver/removal"]})
    assert run.status != 0
    assert came(run) == []


@pytest.mark.nightly
def test_a_run_despite_pods_does_not_ask_the_host(tmp_path: pathlib.Path) -> None:
    run = remove(tmp_path, "--extra-vars=uninstall_despite_pods=true", gpu1={"fails": [ASK]})
    assert run.status == 0, run.output
    assert ("nvidia_driver/uninstall", "gpu1") in came(run)


@pytest.mark.nightly
def test_check_mode_does_not_ask_for_pods_that_it_has_not_evicted(tmp_path: pathlib.Path) -> None:
    run = remove(tmp_path, "--check", gpu1={"fails": [ASK]})
    assert run.status == 0, run.output
    assert (FORGET, "cp1") in came(run)
