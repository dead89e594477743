"""The cluster forgets a GPU host: resources, labels and annotation of its node, or the node."""

import json
import pathlib
import subprocess
from typing import Any

import pytest
import yaml

from tests.ansible import cluster_server
from tests.ansible.rendering import ansible, words

pytestmark = pytest.mark.long

NODE = "/api/v1/nodes/gpu1"
CORE, MEMORY = "tencent.com/vcuda-core", "tencent.com/vcuda-memory"


def node(**capacity: str) -> dict[str, Any]:
    """Return a node as the agent and the roles leave it; its kubelet reports `capacity`."""
    amounts = {"cpu": "8", **{f"tencent.com/vcuda-{key}": text for key, text in capacity.items()}}
    labels = {"kubernetes.io/hostname": "gpu1", "nvidia-device-enable": "enable", "rack": "7"}
    annotations = {"tencent.com/gpu-devices": "{}", "tencent.com/gpu-violations": "{}"}
    metadata = {"name": "gpu1", "labels": labels, "annotations": annotations}
    status = {"capacity": amounts, "allocatable": {key: "0" for key in amounts}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


class Cluster:
    """One node; its status is changed by its own path, as a real server has it.

    Attributes:
        looks: how often the node was read.
        stops: the kubelet reports 0 from this look on; None if it never does.
    """

    def __init__(self, found: dict[str, Any], *, stops: int | None = None) -> None:
        self.objects: cluster_server.Objects = {NODE: found}
        self.looks, self.stops = 0, stops

    def answer(
        self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]
    ) -> tuple[int, dict[str, Any]] | None:
        if method == "GET" and path == NODE:
            self.looks += 1
            if self.looks == self.stops:
                capacity = self.objects[NODE]["status"]["capacity"]
                capacity.update({key: "0" for key in capacity if key != "cpu"})
        if path == f"{NODE}/status":
            assert method == "PATCH"
            self.objects[NODE] = cluster_server.merged(self.objects[NODE], body)
            return 200, self.objects[NODE]
        return None

    def forget(
        self, folder: pathlib.Path, *arguments: str, **variables: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run the role's part; `variables` lack the role's prefix."""
        role = {"import_role": {"name": "cluster_objects", "tasks_from": "forget"}}
        play = {"hosts": "cp1", "gather_facts": False, "tasks": [role]}
        (folder / "play.yml").write_text(yaml.safe_dump([play]))
        with cluster_server.serving(folder, self.objects, answering=self.answer) as kubeconfig:
            settings = {"kubeconfig": str(kubeconfig), "gpu_hosts": ["gpu1"], **variables}
            own = {
                "ansible_connection": "local",
                **{f"cluster_objects_{name}": value for name, value in settings.items()},
            }
            gpu1 = {"gpustack_agent_node_labels": {"rack": "7"}}
            inventory = {"all": {"vars": own, "hosts": {"cp1": {}, "gpu1": gpu1}}}
            (folder / "hosts.yml").write_text(json.dumps(inventory))
            return ansible(
                "ansible-playbook", f"--inventory={folder}/hosts.yml", *arguments,
                f"{folder}/play.yml",
            )  # fmt: skip


def test_a_node_keeps_nothing_of_ours(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(node(core="200", memory="160"), stops=2)
    done = cluster.forget(tmp_path)
    assert done.returncode == 0, words(done)
    left = cluster.objects[NODE]
    assert left["metadata"]["labels"] == {"kubernetes.io/hostname": "gpu1"}
    assert left["metadata"]["annotations"] == {}
    assert left["status"] == {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "0"}}
    assert "changed=0" in words(cluster.forget(tmp_path))


@pytest.mark.nightly
def test_a_kubelet_that_goes_on_is_named_and_the_description_stays(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(node(core="200"))
    done = cluster.forget(tmp_path, kubelet_seconds=1)
    assert done.returncode != 0
    assert f"The kubelet of node gpu1 has reported {CORE}: 200 for 1 s" in words(done)
    assert cluster.objects[NODE] == node(core="200")


def test_a_dead_hosts_resources_go_at_once(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(node(core="200", memory="160"))
    done = cluster.forget(tmp_path, kubelet_seconds=0)
    assert done.returncode == 0, words(done)
    assert cluster.objects[NODE]["status"]["capacity"] == {"cpu": "8"}


def test_check_mode_says_what_would_go_and_changes_nothing(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(node(core="200"))
    done = cluster.forget(tmp_path, "--check")
    assert done.returncode == 0, words(done)
    assert "changed=2" in words(done)
    assert cluster.objects[NODE] == node(core="200")


def test_a_node_that_shall_go_is_deleted_once(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(node(core="200"))
    done = cluster.forget(tmp_path, delete_nodes=True)
    assert done.returncode == 0, words(done)
    assert cluster.objects == {}
    again = cluster.forget(tmp_path, delete_nodes=True)
    assert again.returncode == 0, words(again)
    assert "changed=0" in words(again)
