"""What tells Prometheus where agents and extenders serve their metrics."""

import json
import pathlib
from typing import Any

import pytest
import yaml

from tests.ansible import cluster_server
from tests.ansible.rendering import ansible, words

HOSTS: dict[str, dict[str, Any]] = {
    "gpu1": {"gpustack_agent_metrics_listen": "0.0.0.0:5679", "ansible_host": "192.0.2.1"},
    "gpu2": {
        "gpustack_agent_metrics_listen": "[::]:5679",
        "cluster_objects_metrics_address": "192.0.2.2",
    },
    "gpu3": {},  # serves none
    "cp1": {"gpustack_extender_metrics_listen": "192.0.2.10:3457"},
}
PLACES = [
    {"targets": ["192.0.2.1:5679"], "labels": {"host": "gpu1", "job": "gpustack-agents"}},
    {"targets": ["192.0.2.2:5679"], "labels": {"host": "gpu2", "job": "gpustack-agents"}},
    {"targets": ["192.0.2.10:3457"], "labels": {"host": "cp1", "job": "gpustack-extenders"}},
]
SERVICE = "/api/v1/namespaces/kube-system/services/gpustack-agents"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
MONITORS = "/apis/monitoring.coreos.com/v1/namespaces/kube-system/servicemonitors"


class Site:
    """A controller, and a cluster whose objects are in memory."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.file = folder / "gpustack.json"
        self.objects: cluster_server.Objects = {}
        self.hosts = HOSTS

    def create(
        self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]
    ) -> tuple[int, dict[str, Any]] | None:
        if method != "POST":
            return None
        if "dryRun" not in query:
            self.objects[f"{path}/{body['metadata']['name']}"] = body
        return 201, body

    def run(self, tasks: str) -> Any:
        """Run tasks of the role; returns how the program ended."""
        with cluster_server.serving(self.folder, self.objects, answering=self.create) as kubeconfig:
            variables = {
                "ansible_connection": "local",
                "cluster_objects_kubeconfig": str(kubeconfig),
                "cluster_objects_metrics": True,
                "cluster_objects_metrics_file": str(self.file),
                "cluster_objects_metrics_agents": ["gpu1", "gpu2", "gpu3"],
                "cluster_objects_metrics_extenders": ["cp1"],
            }
            inventory = {"all": {"vars": variables, "hosts": self.hosts}}
            (self.folder / "hosts.yml").write_text(json.dumps(inventory))
            role = {"name": "cluster_objects", "tasks_from": tasks}
            play = {
                "hosts": "cp1",
                "gather_facts": False,
                "tasks": [{"ansible.builtin.import_role": role}],
            }
            (self.folder / "play.yml").write_text(yaml.safe_dump([play]))
            return ansible(
                "ansible-playbook",
                f"--inventory={self.folder}/hosts.yml",
                str(self.folder / "play.yml"),
            )


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Site:
    return Site(tmp_path)


@pytest.mark.long
@pytest.mark.nightly
def test_prometheus_finds_the_hosts_until_they_are_removed(site: Site) -> None:
    done = site.run("metrics")
    assert done.returncode == 0, words(done)
    assert json.loads(site.file.read_text()) == PLACES
    service = site.objects[SERVICE]
    assert service["spec"] == {
        "clusterIP": "None",
        "ports": [{"name": "metrics", "port": 5679}],
    }
    assert service["metadata"]["annotations"]["prometheus.io/scrape"] == "true"
    assert service["metadata"]["annotations"]["prometheus.io/path"] == "/metrics"
    found = site.objects[f"{SLICES}/gpustack-agents"]
    assert [each["addresses"] for each in found["endpoints"]] == [["192.0.2.1"], ["192.0.2.2"]]
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "gpustack-agents"
    assert len(site.objects) == 6
    monitor = site.objects[f"{MONITORS}/gpustack-extenders"]["spec"]["endpoints"][0]
    assert monitor["honorLabels"] is True
    again = site.run("metrics")
    assert "changed=0" in again.stdout, words(again)
    removed = site.run("uninstall")
    assert removed.returncode == 0, words(removed)
    assert (site.objects, site.file.exists()) == ({}, False)


@pytest.mark.long
def test_a_host_without_an_address_is_named(site: Site) -> None:
    site.hosts = {**HOSTS, "gpu2": {"gpustack_agent_metrics_listen": "0.0.0.0:5679"}}
    done = site.run("metrics")
    assert done.returncode != 0
    assert "gpu2: gpu2 is no IP address: set cluster_objects_metrics_address" in words(done)
