import pathlib

import pytest
import yaml

from tests.testbed import description, progress
from tests.testbed.host_files import inventory


def test_a_plan_gives_every_host_an_address_and_gpu_hosts_pod_subnets(
    testbed: description.Testbed,
) -> None:
    assert [(host.name, host.address) for host in testbed.hosts] == [
        ("cp1", "10.89.7.10"),
        ("gpu1", "10.89.7.11"),
        ("gpu2", "10.89.7.12"),
    ]
    assert [host.pod_subnet for host in testbed.gpu_hosts] == ["10.244.1.0/24", "10.244.2.0/24"]
    assert testbed.control_plane.name == "cp1"


def test_further_control_planes_move_no_gpu_host(state_root: pathlib.Path) -> None:
    planned = description.plan("paper", 1, "10.89.7.0/24", cluster=True, control_planes=3)
    assert [(host.name, host.address) for host in planned.hosts] == [
        ("cp1", "10.89.7.10"),
        ("cp2", "10.89.7.9"),
        ("cp3", "10.89.7.8"),
        ("gpu1", "10.89.7.11"),
    ]
    assert planned.control_planes == planned.hosts[:3]
    with pytest.raises(progress.TestbedError, match="1 to 9 control planes, not 10"):
        description.plan("paper", 1, "10.89.7.0/24", cluster=True, control_planes=10)


def test_a_single_host_is_the_control_plane_too() -> None:
    planned = description.plan("paper", None, "10.89.7.0/24", cluster=True)
    assert planned.control_planes == planned.gpu_hosts == planned.hosts


def test_a_testbed_is_read_back_as_it_was_saved(testbed: description.Testbed) -> None:
    description.save(testbed)

    assert description.load("paper") == testbed
    assert (testbed.state / "gpu2.address").read_text() == "10.89.7.12\n"


def test_forgetting_the_last_testbed_leaves_no_folder(
    testbed: description.Testbed, state_root: pathlib.Path
) -> None:
    description.save(testbed)

    description.forget("paper")

    assert not state_root.exists()


def test_forgetting_a_testbed_keeps_the_others(
    testbed: description.Testbed, state_root: pathlib.Path
) -> None:
    (state_root / "other").mkdir()

    description.forget("paper")

    assert [folder.name for folder in state_root.iterdir()] == ["other"]


def test_forgetting_a_missing_testbed_is_no_error(state_root: pathlib.Path) -> None:
    description.forget("missing")

    assert not state_root.exists()


def test_loading_a_testbed_that_is_not_there_says_how_to_start_it(state_root: pathlib.Path) -> None:
    with pytest.raises(progress.TestbedError, match="up --name missing"):
        description.load("missing")


@pytest.mark.parametrize("name", ["", "Demo", "a-b", "1st", "../etc", "muchtoolongname"])
def test_a_name_that_podman_or_a_path_would_misread_is_refused(name: str) -> None:
    with pytest.raises(progress.TestbedError, match="a testbed's name is"):
        description.check_name(name)


def test_a_network_too_small_for_the_hosts_is_refused() -> None:
    with pytest.raises(progress.TestbedError, match="no room for 6 GPU hosts"):
        description.plan("paper", 6, "10.89.7.0/28", cluster=False)


def test_an_unknown_host_is_refused_with_the_known_ones(testbed: description.Testbed) -> None:
    with pytest.raises(progress.TestbedError, match="no host gpu9; it has cp1, gpu1, gpu2"):
        testbed.host("gpu9")


def test_the_inventory_has_a_customers_groups_and_looks_pids_up(
    testbed: description.Testbed,
) -> None:
    whole = yaml.safe_load(inventory.text(testbed))["all"]

    groups = {name: list(group["hosts"]) for name, group in whole["children"].items()}
    assert groups == {"kube_control_plane": ["cp1"], "gpu_nodes": ["gpu1", "gpu2"]}
    assert whole["vars"]["ansible_connection"] == "community.docker.nsenter"
    # each by its own name: inventory_hostname is another host's in a task that is delegated
    pid = whole["children"]["gpu_nodes"]["hosts"]["gpu1"]["ansible_nsenter_pid"]
    assert pid == f"{{{{ lookup('ansible.builtin.file', '{testbed.state}/gpu1.pid') | int }}}}"
    # podman writes exactly the files that the look-up reads
    assert str(testbed.pid_file(testbed.host("gpu1"))) == f"{testbed.state}/gpu1.pid"
