"""A GPU host is looked for in the cluster under the name that its agent will use."""

import pathlib
import subprocess
from typing import Any

import pytest
import yaml

from tests.ansible.api_server import node
from tests.ansible.rendering import ansible, words

pytestmark = pytest.mark.long

NODES = [node(name, {}) for name in ("cp1", "gpu1", "gpu2.example.com")]


def check(
    folder: pathlib.Path, plane: dict[str, Any], **gpu_hosts: dict[str, Any]
) -> subprocess.CompletedProcess[str]:
    """Run preflight's part for GPU hosts, after the control plane has read the cluster."""
    kubelet = folder / "kubelet.conf"
    kubelet.touch()
    common = {"ansible_connection": "local", "preflight_kubelet_kubeconfig": str(kubelet)}
    inventory = {
        "all": {"vars": common},
        "kube_control_plane": {"hosts": {"cp1": plane}},
        "gpu_nodes": {"hosts": gpu_hosts},
    }
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
    role = {"import_role": {"name": "preflight", "tasks_from": "gpu_node"}}
    role["vars"] = {"preflight_kind": "gpu_node"}
    play = {"hosts": "gpu_nodes", "gather_facts": False, "tasks": [role]}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    return ansible("ansible-playbook", f"--inventory={folder}/hosts.yml", f"{folder}/play.yml")


def test_a_host_whose_node_has_another_name_is_told_the_names(tmp_path: pathlib.Path) -> None:
    seen = {"cluster_objects_seen": {"nodes": NODES}}
    done = check(tmp_path, seen, gpu1={}, gpu2={})
    said = words(done)
    assert done.returncode != 0
    assert "The cluster has no node gpu2, only cp1, gpu1, gpu2.example.com. Set" in said
    assert "no node gpu1" not in said


def test_a_host_whose_node_is_named_passes(tmp_path: pathlib.Path) -> None:
    seen = {"cluster_objects_seen": {"nodes": NODES}}
    done = check(tmp_path, seen, gpu1={}, gpu2={"gpustack_agent_node_name": "gpu2.example.com"})
    assert done.returncode == 0, done.stdout


def test_two_hosts_of_one_node_are_named(tmp_path: pathlib.Path) -> None:
    done = check(tmp_path, {}, gpu1={}, gpu2={"gpustack_agent_node_name": "gpu1"}, gpu3={})
    assert done.returncode != 0
    assert words(done).count("Several GPU hosts have the node gpu1: give each") >= 2
    assert "have the node gpu3" not in words(done)


def test_a_run_that_leaves_the_control_plane_out_asks_nothing(tmp_path: pathlib.Path) -> None:
    done = check(tmp_path, {}, gpu1={}, gpu2={})
    assert done.returncode == 0, done.stdout
