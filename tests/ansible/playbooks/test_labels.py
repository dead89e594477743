"""Nodes get our labels, and uninstall takes these off alone."""

import json
import pathlib
import subprocess
from typing import Any

import pytest
import yaml

from tests.ansible import cluster_server, layout
from tests.ansible.rendering import ansible, words

pytestmark = pytest.mark.long

ENABLE, MODEL = "nvidia-device-enable", "gaia.tencent.com/gpu-model"
POOL, DEVICES = "gaia.tencent.com/gpu-pool", "tencent.com/gpu-devices"
# gpu1's pool is of the inventory; gpu2's was set by somebody else, to the same value
HOSTS = {"gpu1": {"cluster_objects_gpu_pool": "blue"}, "gpu2": {}}


def node(name: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, ENABLE: "enable", MODEL: "T4", POOL: "blue"}
    metadata = {"name": name, "uid": name, "labels": labels, "annotations": {DEVICES: "{}"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def labels(objects: cluster_server.Objects, name: str) -> dict[str, str]:
    found: dict[str, str] = objects[f"/api/v1/nodes/{name}"]["metadata"]["labels"]
    return found


def remove(
    folder: pathlib.Path, kubeconfig: pathlib.Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Remove the cluster's objects, as uninstall does in the end."""
    role = {
        "ansible.builtin.import_role": {"name": "cluster_objects", "tasks_from": "uninstall"},
        "vars": {"cluster_objects_gpu_hosts": list(HOSTS)},
    }
    variables = {
        "ansible_connection": "local",
        "cluster_objects_kubeconfig": str(kubeconfig),
    }
    inventory = {
        "all": {
            "vars": variables,
            "children": {"gpu_nodes": {"hosts": HOSTS}, "cp": {"hosts": {"cp1": {}}}},
        }
    }
    (folder / "hosts.yml").write_text(json.dumps(inventory))
    play = {"hosts": "cp1", "gather_facts": False, "tasks": [role]}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    return ansible(
        "ansible-playbook", f"--inventory={folder}/hosts.yml", *arguments, str(folder / "play.yml")
    )


@pytest.mark.nightly
def test_a_pool_that_the_inventory_does_not_name_stays(tmp_path: pathlib.Path) -> None:
    objects = {f"/api/v1/nodes/{name}": node(name) for name in HOSTS}
    with cluster_server.serving(tmp_path, objects) as kubeconfig:
        done = remove(tmp_path, kubeconfig)
        assert done.returncode == 0, words(done)
        again = remove(tmp_path, kubeconfig)
    assert labels(objects, "gpu1") == {"kubernetes.io/hostname": "gpu1"}
    assert labels(objects, "gpu2") == {"kubernetes.io/hostname": "gpu2", POOL: "blue"}
    assert "changed=0" in again.stdout, words(again)


@pytest.mark.nightly
def test_check_mode_takes_no_label(tmp_path: pathlib.Path) -> None:
    objects = {f"/api/v1/nodes/{name}": node(name) for name in HOSTS}
    with cluster_server.serving(tmp_path, objects) as kubeconfig:
        done = remove(tmp_path, kubeconfig, "--check")
    assert done.returncode == 0, words(done)
    assert objects == {f"/api/v1/nodes/{name}": node(name) for name in HOSTS}


@pytest.mark.nightly
def test_a_node_that_is_gone_from_the_cluster_keeps_no_other(tmp_path: pathlib.Path) -> None:
    objects = {"/api/v1/nodes/gpu2": node("gpu2")}
    with cluster_server.serving(tmp_path, objects) as kubeconfig:
        done = remove(tmp_path, kubeconfig)
    assert done.returncode == 0, words(done)
    assert ENABLE not in labels(objects, "gpu2")


def test_a_node_has_the_name_and_the_pool_of_its_host(tmp_path: pathlib.Path) -> None:
    hosts = {
        "gpu1": {"cluster_objects_gpu_pool": "blue"},
        "gpu2": {"gpustack_agent_node_name": "8"},
    }
    role = layout.ROOT / "roles/cluster_objects"
    variables = {"ansible_connection": "local", "cluster_objects_gpu_hosts": list(hosts)}
    inventory = {"all": {"hosts": {"cp1": {}, **hosts}, "vars": variables}}
    (tmp_path / "hosts.yml").write_text(json.dumps(inventory))
    nodes = f"lookup('ansible.builtin.template', '{role}/templates/gpu_nodes.yml.j2')"
    tasks = [
        {"include_vars": f"{role}/vars/main.yml"},
        {"copy": {"content": f"{{{{ {nodes} }}}}", "dest": f"{tmp_path}/nodes.yml"}},
    ]
    said = layout.load(role / "defaults/main.yml") | variables
    play = {"hosts": "cp1", "gather_facts": False, "vars": said, "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = ansible("ansible-playbook", f"--inventory={tmp_path}/hosts.yml", f"{tmp_path}/play.yml")
    assert done.returncode == 0, done.stdout
    found = {
        each["metadata"]["name"]: each["metadata"]["labels"]
        for each in yaml.safe_load_all((tmp_path / "nodes.yml").read_text())
    }
    enabled = {ENABLE: "enable"}
    assert found == {"gpu1": enabled | {POOL: "blue"}, "8": enabled}
