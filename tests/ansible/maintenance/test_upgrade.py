"""Upgrades go host by host, drain for a driver alone, and put back what ran where one fails."""

import json
import pathlib
from typing import Any

import pytest

from tests.ansible.playbooks import recorder

pytestmark = pytest.mark.long

TAKE, DONE, BACK = "host_snapshot/take", "host_snapshot/done", "host_snapshot/restore"
DRAIN, UNCORDON = "node_maintenance/drain", "node_maintenance/restore"
AGENT, VERIFY = "gpustack_agent", "gpustack_agent/verify"
# what the roles that are only recorded here would have said
HOOK: dict[str, Any] = {"host_snapshot_hook": "0.1.0-01234567"}
KINDS = {"kube_control_plane": "control_plane", "gpu_nodes": "gpu_node"}
NEWER = {"nvidia_driver_changes": ["libcuda1 [535] (550)"]}
OLDER = {"host_snapshot_state": {"packages": ["libcuda1=535"]}}


def play(
    folder: pathlib.Path, parts: Any, *arguments: str, playbook: str = "upgrade", **variables: Any
) -> recorder.Run:
    """Run it on two control planes and three GPU hosts; `parts` None names none."""
    names = {"kube_control_plane": ("cp1", "cp2"), "gpu_nodes": ("gpu1", "gpu2", "gpu3")}
    groups = {
        group: {
            name: {**HOOK, "host_snapshot_begun": KINDS[group], **variables.get(name, {})}
            for name in hosts
        }
        for group, hosts in names.items()
    }
    told = [] if parts is None else [f"--extra-vars={json.dumps({'upgrade_parts': parts})}"]
    path = f"playbooks/{playbook}.yml"
    return recorder.play(folder, groups, *told, *arguments, playbook=path)


def came(run: recorder.Run, host: str) -> list[str]:
    """Return the roles that changed a host or looked at it, preflight's aside."""
    return [
        one.role
        for one in run.entries
        if one.host == host and one.role.rpartition("/")[2] not in recorder.CHECKS
    ]


def said(run: recorder.Run) -> str:
    return " ".join(run.output.split())


@pytest.mark.nightly
def test_agents_and_hooks_are_upgraded_without_a_drain(tmp_path: pathlib.Path) -> None:
    run = play(tmp_path, "agent,hook", gpu1=NEWER, gpu2=NEWER, gpu3=NEWER)
    assert run.status == 0, run.output
    assert came(run, "gpu1") == [
        TAKE, "gpustack_hook", AGENT, "gpustack_hook/verify", VERIFY, DONE,
    ]  # fmt: skip
    assert run.batches(AGENT)[0] == ("gpu1",)
    assert came(run, "cp1") == came(run, "cp2") == []


def test_a_driver_drains_one_host_at_a_time(tmp_path: pathlib.Path) -> None:
    run = play(tmp_path, ["driver"], '--extra-vars={"gpu_nodes_serial": 3}', gpu2=NEWER)
    assert run.status == 0, run.output
    assert run.hosts(DRAIN) == ["gpu2"]
    assert came(run, "gpu2") == [
        "nvidia_driver/plan", TAKE, DRAIN, "gpustack_hook/running_pods", "nvidia_driver/unused",
        "nvidia_driver", "nvidia_uvm", "nvidia_driver/reload", "nvidia_uvm/verify", VERIFY,
        "nvidia_driver/plan", DONE, UNCORDON,
    ]  # fmt: skip
    assert run.batches(DONE) == [("gpu1",), ("gpu2",), ("gpu3",)]


def test_another_driver_is_left_to_an_upgrade(tmp_path: pathlib.Path) -> None:
    refused = {"fails": ["nvidia_driver/in_place"]}
    for name in ("site", "upgrade"):
        (tmp_path / name).mkdir()
    groups: dict[str, Any] = {"kube_control_plane": {"cp1": {}}, "gpu_nodes": {"gpu1": refused}}
    run = recorder.play(tmp_path / "site", groups)
    assert (run.status != 0, run.changed) == (True, [])
    run = play(tmp_path / "upgrade", "driver", gpu1=refused)
    assert run.status == 0, run.output


def test_a_process_that_uses_a_card_keeps_the_driver(tmp_path: pathlib.Path) -> None:
    # it has begun since the plan
    run = play(tmp_path, "driver", gpu1={**NEWER, **OLDER, "fails": ["nvidia_driver/unused"]})
    assert run.status != 0
    assert "nvidia_uvm" not in came(run, "gpu1")
    assert came(run, "gpu1")[-3:] == [BACK, VERIFY, UNCORDON]
    assert came(run, "gpu2") == []


def test_drivers_drain_one_host_at_a_time_however_they_are_named(tmp_path: pathlib.Path) -> None:
    run = play(tmp_path, ["hook, driver"], '--extra-vars={"gpu_nodes_serial": 3}')
    assert run.status == 0, run.output
    assert run.batches(DONE) == [("gpu1",), ("gpu2",), ("gpu3",)]


def test_without_parts_all_are_upgraded_extenders_first(tmp_path: pathlib.Path) -> None:
    run = play(tmp_path, None)
    assert run.status == 0, run.output
    assert came(run, "cp2") == [
        TAKE, "gpustack_extender", "kube_scheduler", "gpustack_extender/verify",
        "kube_scheduler/verify", DONE,
    ]  # fmt: skip
    changed = [one.host for one in run.entries if one.role in ("cluster_objects", TAKE)]
    assert changed == ["cp1", "cp1", "cp2", "gpu1", "gpu2", "gpu3"]
    assert AGENT in came(run, "gpu3")


@pytest.mark.parametrize(
    "fails", [pytest.param("nvidia_driver/reload", marks=pytest.mark.nightly), VERIFY]
)
def test_a_driver_that_fails_is_put_back_and_stops_the_run(
    tmp_path: pathlib.Path, fails: str
) -> None:
    # fails once: the rescue's own steps, of the same names, succeed
    once = f"{{{{ [] if __upgrade_fault is defined else ['{fails}'] }}}}"
    run = play(tmp_path, ["driver"], gpu2={**NEWER, **OLDER, "fails": once})
    assert run.status != 0
    came_back = came(run, "gpu2")
    rescue = came_back[came_back.index(BACK) - 2 :]
    assert rescue == ["nvidia_driver", "nvidia_driver/reload", BACK, VERIFY, UNCORDON]
    assert DONE not in came_back
    assert came(run, "gpu3") == []
    assert "gpu2 runs what it ran before, and no later batch was changed: told to" in said(run)


def test_a_canary_that_fails_keeps_all_others(tmp_path: pathlib.Path) -> None:
    once = f"{{{{ [] if __upgrade_fault is defined else ['{AGENT}'] }}}}"
    run = play(tmp_path, "agent", gpu1={"fails": once})
    assert run.status != 0
    assert came(run, "gpu1")[-2:] == [BACK, VERIFY]
    assert came(run, "gpu2") == came(run, "gpu3") == []


@pytest.mark.nightly
def test_a_host_that_stops_answering_ends_the_run(tmp_path: pathlib.Path) -> None:
    run = play(tmp_path, "agent", gpu1={"vanishes": [AGENT]})
    assert run.status != 0
    assert came(run, "gpu2") == []


def test_a_host_that_does_not_come_back_from_its_boot_is_named(tmp_path: pathlib.Path) -> None:
    # the boot fails, and from then on the host doesn't answer
    away = {
        "ansible_connection": "{{ 'ssh' if __upgrade_fault is defined else 'local' }}",
        "ansible_host": "127.0.0.1",
        "ansible_port": 1,
    }
    run = play(tmp_path, "driver", gpu1={**NEWER, **away, "fails": ["nvidia_driver/reload"]})
    assert run.status != 0
    assert came(run, "gpu1")[-1] == "nvidia_uvm"
    assert came(run, "gpu2") == []
    assert "gpu1 doesn't answer, and could not be put back" in said(run)
    assert "run the playbook again" in said(run)
    assert "gpu1 is changed in part" not in said(run)


@pytest.mark.nightly
def test_an_extender_that_fails_is_put_back_before_the_next(tmp_path: pathlib.Path) -> None:
    once = "{{ [] if __upgrade_fault is defined else ['gpustack_extender/verify'] }}"
    run = play(tmp_path, None, cp1={"fails": once})
    assert run.status != 0
    assert came(run, "cp1")[-2:] == [BACK, "gpustack_extender/verify"]
    assert {one.host for one in run.entries if one.role == TAKE} == {"cp1"}
    assert "cp1 runs the extender that it ran before" in said(run)


def test_a_plan_that_refuses_leaves_the_host_as_it_is(tmp_path: pathlib.Path) -> None:
    # perhaps half changed and cordoned, by a run before that was interrupted
    refused = {"fails": ["nvidia_driver/plan"], "host_snapshot_begun": ""}
    run = play(tmp_path, "driver", gpu1=refused)
    assert run.status != 0
    assert came(run, "gpu1") == []
    assert "gpu1 was left as it is" in said(run)
    assert "gpu1 runs what it ran before" not in said(run)


def test_a_node_that_stays_cordoned_keeps_its_upgrade(tmp_path: pathlib.Path) -> None:
    run = play(tmp_path, "driver", gpu1={"fails": [UNCORDON]})
    assert run.status != 0
    assert came(run, "gpu1")[-1] == DONE
    assert came(run, "gpu2") == []
    assert "gpu1 runs what the upgrade has brought, but its node could not be given" in said(run)


def test_a_host_that_cannot_be_put_back_is_called_half_changed(tmp_path: pathlib.Path) -> None:
    run = play(tmp_path, "driver", gpu1={**NEWER, **OLDER, "fails": ["nvidia_driver/reload"]})
    assert run.status != 0
    assert came(run, "gpu1")[-1] == "nvidia_driver"
    assert "gpu1 is changed in part, and could not be put back (told to)" in said(run)
    assert "takes no pods" in said(run)


@pytest.mark.parametrize("part", ["hook", pytest.param("agent", marks=pytest.mark.nightly)])
def test_hook_or_agent_alone_asks_for_paths_that_agree(tmp_path: pathlib.Path, part: str) -> None:
    refused = {"fails": ["gpustack_hook/same_paths"], "host_snapshot_begun": ""}
    run = play(tmp_path, part, gpu1=refused)
    assert run.status != 0
    assert came(run, "gpu1") == []


@pytest.mark.parametrize("playbook", ["upgrade", "rollback"])
def test_a_part_that_there_is_not_is_refused(tmp_path: pathlib.Path, playbook: str) -> None:
    run = play(tmp_path, "agent,kernel", playbook=playbook)
    assert (run.status != 0, run.entries) == (True, [])
    assert "upgrade_parts names kernel, and may name agent, hook" in said(run)


def test_a_rollback_goes_the_other_way_round(tmp_path: pathlib.Path) -> None:
    run = play(tmp_path, None, playbook="rollback", gpu2={**NEWER, **OLDER})
    assert run.status == 0, run.output
    restored = [one.host for one in run.entries if one.role == BACK]
    assert restored == ["gpu1", "gpu2", "gpu3", "cp1", "cp2"]
    assert run.hosts(DRAIN) == ["gpu2"]
    assert came(run, "gpu2") == [
        "host_snapshot/look", "host_snapshot/ready", "nvidia_driver/plan", DRAIN,
        "gpustack_hook/running_pods", "nvidia_driver/unused", "nvidia_driver",
        "nvidia_driver/reload", BACK, VERIFY, UNCORDON,
    ]  # fmt: skip


def test_a_rollback_ends_at_the_first_fault(tmp_path: pathlib.Path) -> None:
    run = play(tmp_path, "agent", playbook="rollback", gpu1={"fails": [VERIFY]})
    assert run.status != 0
    assert [one.host for one in run.entries if one.role == BACK] == ["gpu1"]


def both(folder: pathlib.Path, parts: Any, playbook: str, **variables: Any) -> recorder.Run:
    """Run it on one host of both groups."""
    kept = {"folder": "/kept/now", "environment": "cpython-311-0123456789abcdef"}
    own = {**HOOK, "host_snapshot_begun": "gpu_node", "host_snapshot_state": kept, **variables}
    groups: dict[str, Any] = {name: {"gpu1": own} for name in KINDS}
    told = f"--extra-vars={json.dumps({'upgrade_parts': parts})}"
    return recorder.play(folder, groups, told, playbook=f"playbooks/{playbook}.yml")


def test_an_extender_goes_back_with_the_agent_of_its_environment(tmp_path: pathlib.Path) -> None:
    once = f"{{{{ [] if __upgrade_fault is defined else ['{AGENT}'] }}}}"
    run = both(tmp_path, "agent", "upgrade", fails=once)
    assert run.status != 0
    assert came(run, "gpu1")[-5:] == [
        BACK, "host_snapshot/look", BACK, "gpustack_extender/verify", VERIFY,
    ]  # fmt: skip


def test_half_of_a_shared_environment_is_not_rolled_back(tmp_path: pathlib.Path) -> None:
    run = both(tmp_path, "extender", "rollback")
    assert (run.status != 0, run.entries) == (True, [])
    assert "gpu1 is in both groups, where extender and agent go back together" in said(run)


def test_half_an_upgrade_of_a_driver_is_not_rolled_back(tmp_path: pathlib.Path) -> None:
    begun = {"host_snapshot_state": {"folder": "/kept/now", "packages": ["libcuda1=535"]}}
    run = play(tmp_path, "agent,hook", playbook="rollback", gpu1=begun)
    assert run.status != 0
    assert came(run, "gpu1") == ["host_snapshot/look"]
    assert "gpu1 was left as it is: an upgrade of its driver has not come to its end" in said(run)


def test_a_driver_is_rolled_back_after_the_rest_was(tmp_path: pathlib.Path) -> None:
    kept = {**OLDER["host_snapshot_state"], "restored": True, "packages_stay": True}
    run = play(tmp_path, "driver", playbook="rollback", gpu1={**NEWER, "host_snapshot_state": kept})
    assert run.status == 0, run.output
    assert run.hosts(DRAIN) == run.hosts("nvidia_driver") == ["gpu1"]
