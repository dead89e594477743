"""Uninstall is refused while pods hold cards, before a change on any host.

Where it isn't refused, the first role that would remove a file stops at a variable of its own:
the hosts are this machine.
"""

import pathlib
import re
import socket
import subprocess
from typing import Any

import pytest
import yaml

from tests.ansible import api_server
from tests.ansible.gpu_hosts.gpu_host import GpuHost
from tests.ansible.playbooks import recorder
from tests.ansible.rendering import ansible, words

pytestmark = pytest.mark.long

UID = "11111111-2222-3333-4444-555555555555"
FIRST_REMOVAL = "TASK [kube_scheduler : "
DESPITE = "--extra-vars=uninstall_despite_pods=true"


class Site:
    """One control-plane host and two GPU hosts, all of them this machine, with folders apart."""

    def __init__(self, folder: pathlib.Path, kubeconfig: pathlib.Path) -> None:
        self._folder = folder
        self.gpu1, self.gpu2 = GpuHost(folder / "gpu1"), GpuHost(folder / "gpu2")
        groups = {
            "kube_control_plane": {"hosts": {"cp1": {"kube_scheduler_manager": "stop here"}}},
            "gpu_nodes": {
                "hosts": {"gpu1": self.gpu1.variables, "gpu2": self.gpu2.variables},
            },
            "all": {
                "vars": {
                    "ansible_connection": "local",
                    "ansible_become": False,
                    "cluster_objects_kubeconfig": str(kubeconfig),
                }
            },
        }
        (folder / "hosts.yml").write_text(yaml.safe_dump(groups))

    def uninstall(self, *extra: str) -> subprocess.CompletedProcess[str]:
        return ansible(
            "ansible-playbook", f"--inventory={self._folder}/hosts.yml", "--check",
            "--extra-vars=uninstall_confirmed=true", *extra, "playbooks/uninstall.yml",
        )  # fmt: skip


def pod(name: str, **changes: Any) -> dict[str, Any]:
    """Return a bound pod that asks for half a card."""
    limits = {"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "4"}
    return {
        "metadata": {"name": name, "namespace": "research", "uid": UID},
        "spec": {
            "nodeName": "gpu9",
            "containers": [{"name": "main", "resources": {"limits": limits}}],
        },
        "status": {"phase": "Running"},
        **changes,
    }


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """Return the words of a refusal that came before the first change."""
    assert done.returncode != 0, done.stdout
    assert FIRST_REMOVAL not in done.stdout
    recap = done.stdout.partition("PLAY RECAP")[2]
    assert set(re.findall(r"changed=(\d+)", recap)) == {"0"}
    return words(done)


def test_a_host_with_pods_stops_all_without_an_api_server(tmp_path: pathlib.Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # no server listens there
        kubeconfig = api_server.write_kubeconfig(tmp_path, taken.getsockname()[1])
        site = Site(tmp_path, kubeconfig)
        site.gpu2.record(UID, "research", "notebook")
        site.gpu2.keep(UID)
        words = refused(site.uninstall())
        assert "research/notebook on gpu2 use files of gpustack" in words
        assert "uninstall_despite_pods=true" in words


def test_pods_that_the_cluster_knows_stop_all(tmp_path: pathlib.Path) -> None:
    pods = [
        pod("notebook"),
        pod("over", status={"phase": "Succeeded"}),
        pod("waiting", spec={"containers": []}),
    ]
    pods[1]["metadata"]["managedFields"] = [{"fieldsV1": api_server.ENDLESS}]
    with api_server.serving(tmp_path, {"pods": pods}) as kubeconfig:
        words = refused(Site(tmp_path, kubeconfig).uninstall())
        assert "research/notebook on gpu9 hold cards" in words
        assert "research/over" not in words
        assert "research/waiting" not in words


def test_a_cluster_that_does_not_answer_stops_all(tmp_path: pathlib.Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        kubeconfig = api_server.write_kubeconfig(tmp_path, taken.getsockname()[1])
        assert "Connection refused" in refused(Site(tmp_path, kubeconfig).uninstall())


@pytest.mark.nightly
def test_uninstall_goes_on_despite_pods_when_told(tmp_path: pathlib.Path) -> None:
    with api_server.serving(tmp_path, {"pods": [pod("notebook")]}) as kubeconfig:
        site = Site(tmp_path, kubeconfig)
        site.gpu1.record(UID, "research", "notebook")
        site.gpu1.keep(UID)
        assert FIRST_REMOVAL in site.uninstall(DESPITE).stdout


@pytest.mark.nightly
def test_uninstall_goes_on_where_no_pod_holds_cards(tmp_path: pathlib.Path) -> None:
    with api_server.serving(tmp_path, {"pods": []}) as kubeconfig:
        assert FIRST_REMOVAL in Site(tmp_path, kubeconfig).uninstall().stdout


def order_of_uninstall(
    folder: pathlib.Path, groups: dict[str, Any], *arguments: str
) -> list[tuple[str, str]]:
    """Run uninstall with recorded roles; return which entry came to which host, in order."""
    done = recorder.play(
        folder, groups, "--extra-vars=uninstall_confirmed=true", *arguments,
        playbook="playbooks/uninstall.yml",
    )  # fmt: skip
    assert done.status == 0, done.output
    return [(one.role, one.host) for one in done.entries]


def test_gpu_hosts_are_asked_again_when_no_scheduler_binds(tmp_path: pathlib.Path) -> None:
    planes: dict[str, Any] = {"cp1": {}, "cp2": {}}
    groups = {"kube_control_plane": planes, "gpu_nodes": {"gpu1": {}, "gpu2": {}}}
    came = order_of_uninstall(tmp_path, groups)
    restored = came.index(("kube_scheduler/uninstall", "cp2"))
    removed = came.index(("gpustack_agent/uninstall", "gpu1"))
    asked = came[restored:removed]
    assert {host for role, host in asked if role == "gpustack_hook/running_pods"} == {
        "gpu1",
        "gpu2",
    }


def test_a_host_of_both_groups_keeps_its_agents_environment_until_asked(
    tmp_path: pathlib.Path,
) -> None:
    groups: dict[str, Any] = {
        "kube_control_plane": {"one": {}, "cp2": {}},
        "gpu_nodes": {"one": {}},
    }
    came = order_of_uninstall(tmp_path, groups)
    restored = came.index(("kube_scheduler/uninstall", "one"))
    asked = came.index(("gpustack_hook/running_pods", "one"), restored)
    assert came.index(("python_service/uninstall", "cp2")) < asked
    assert came.index(("python_service/uninstall", "one")) > asked


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("limit", "kept"),
    [
        ("gpu1,gpu2", True),
        ("all", False),
        pytest.param("cp1,cp2,gpu*", False, marks=pytest.mark.nightly),
    ],
)
def test_the_clusters_objects_go_with_the_last_host(
    tmp_path: pathlib.Path, limit: str, kept: bool
) -> None:
    groups: dict[str, Any] = {
        "kube_control_plane": {"cp1": {}, "cp2": {}},
        "gpu_nodes": {"gpu1": {}, "gpu2": {}},
    }
    came = order_of_uninstall(tmp_path, groups, f"--limit={limit}")
    assert (("cluster_objects/uninstall", "cp1") not in came) is kept
