"""Preflight's words about an inventory: each host below has one fault, and its message names it."""

import json
import pathlib
import re
import subprocess
from typing import Any

import pytest
import yaml

from tests.ansible import layout
from tests.ansible.rendering import ansible, words

pytestmark = pytest.mark.long

# host name: its group's kind, its variables, and what the message must contain
FAULTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "misspelt": (
        "gpu_node",
        {"gpustack_agent_domian": "x.test"},
        "Role gpustack_agent has no variable gpustack_agent_domian",
    ),
    "stranger": (
        "gpu_node",
        {"gpustack_agnet_domain": "x.test"},
        "Nothing of gpustack has a variable gpustack_agnet_domain",
    ),
    "serial": ("gpu_node", {"gpu_node_serial": 1}, "gpu_nodes_serial"),
    "hook": (
        "gpu_node",
        {"gpustack_agent_hook_version": "auto"},
        "gpustack_agent_hook_version is auto, and must be the name of a folder",
    ),
    "type": ("gpu_node", {"gpustack_agent_http_port": "high"}, "gpustack_agent_http_port"),
    "choice": (
        "control_plane",
        {"gpustack_extender_policy": "best"},
        "gpustack_extender_policy must be one of: exact,",
    ),
    "pool": ("gpu_node", {"cluster_objects_gpu_pool": 7}, "cluster_objects_gpu_pool is no text"),
    "text": (
        "gpu_node",
        {"nvidia_driver_packages": "libcuda1"},
        "nvidia_driver_packages is the text libcuda1, and must be a list",
    ),
    "states": (
        "gpu_node",
        {"gpustack_agent_state_path": "/srv/state"},
        "gpustack_hook_state_path and gpustack_agent_state_path must say the same",
    ),
    "bundles": (
        "control_plane",
        {"gpustack_extender_bundle": "/srv/bundle"},
        "preflight_bundle and gpustack_extender_bundle must say the same",
    ),
    "ports": (
        "control_plane",
        {"gpustack_extender_listen": "127.0.0.1:4567"},
        "kube_scheduler_extender_url is https://127.0.0.1:3456/scheduler, but",
    ),
    "hosts": (
        "control_plane",
        {"kube_scheduler_extender_url": "https://plane.example:3456/scheduler"},
        "names the host plane.example, which the extender refuses: add it to "
        "gpustack_extender_allowed_hosts",
    ),
    "plain-url": (
        "control_plane",
        {"kube_scheduler_extender_url": "http://127.0.0.1:3456/scheduler"},
        "kube_scheduler_extender_url is http://127.0.0.1:3456/scheduler, but the extender is "
        "called over TLS",
    ),
    "one-tls": (
        "control_plane",
        {"kube_scheduler_tls": False},
        "gpustack_extender_tls is True and kube_scheduler_tls is False",
    ),
    "policy-tls": (
        "control_plane",
        {"kube_scheduler_form": "policy", "gpustack_extender_tls": True},
        "kube_scheduler_form is policy, which calls by plain HTTP: leave gpustack_extender_tls",
    ),
    "unheard": (
        "control_plane",
        {"gpustack_extender_listen": "192.0.2.10:3456"},
        "kube_scheduler_extender_url is https://127.0.0.1:3456/scheduler, but the extender listens "
        "on 192.0.2.10 alone",
    ),
    "unheard-v6": (
        "control_plane",
        {
            "gpustack_extender_listen": "0.0.0.0:3456",
            "kube_scheduler_extender_url": "https://[::1]:3456/scheduler",
        },
        "but the extender listens on 0.0.0.0 alone",
    ),
}
# values that a site may write without a message of ours
SOUND: dict[str, tuple[str, dict[str, Any]]] = {
    "sound-gpu": ("gpu_node", {"gpustack_agent_domain": "tencent.com"}),
    "sound-text": (
        "gpu_node",
        {"gpustack_agent_http_port": "5678", "gpustack_agent_keep_state": "no"},
    ),
    "sound-plane": ("control_plane", {"kube_scheduler_form": "policy"}),
    "sound-name": (
        "control_plane",
        {
            "kube_scheduler_extender_url": "https://plane.example:3456/scheduler",
            "gpustack_extender_allowed_hosts": ["Plane.example"],
        },
    ),
    "sound-plain": (
        "control_plane",
        {
            "gpustack_extender_tls": False,
            "kube_scheduler_extender_url": "http://127.0.0.1:3456/scheduler",
        },
    ),
    "sound-localhost": (
        "control_plane",
        {"kube_scheduler_extender_url": "https://localhost:3456/scheduler"},
    ),
    "sound-anywhere": ("control_plane", {"gpustack_extender_listen": "0.0.0.0:3456"}),
    "sound-address": (
        "control_plane",
        {
            "kube_scheduler_extender_url": "https://[fd00::5]:3456/scheduler",
            "gpustack_extender_listen": "[fd00::5]:3456",
        },
    ),
}


def check(
    folder: pathlib.Path, hosts: dict[str, tuple[str, dict[str, Any]]], *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run preflight's checks of variables alone, for hosts that are all this machine."""
    groups: dict[str, Any] = {"kube_control_plane": {"hosts": {}}, "gpu_nodes": {"hosts": {}}}
    for name, (kind, variables) in hosts.items():
        group = "gpu_nodes" if kind == "gpu_node" else "kube_control_plane"
        said = {"preflight_kind": kind, "ansible_connection": "local", **variables}
        groups[group]["hosts"][name] = said
    (folder / "hosts.yml").write_text(yaml.safe_dump(groups))
    tasks = [
        {"import_role": {"name": "preflight", "tasks_from": part}}
        for part in ("removed_variables", "playbook_variables", "values", "agreement")
    ]
    play = {"hosts": "all", "gather_facts": False, "tasks": tasks}
    # ansible.cfg's roles_path is the repository's
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    return ansible(
        "ansible-playbook", f"--inventory={folder}/hosts.yml", *arguments, f"{folder}/play.yml"
    )


def failures(output: str) -> dict[str, str]:
    """Return each failed host's own lines; one element of a loop fails by the word `failed`."""
    said: dict[str, str] = {}
    for part in re.split(r"^(?:fatal|failed): \[", output, flags=re.MULTILINE)[1:]:
        host = part.partition("]")[0]
        said[host] = said.get(host, "") + " ".join(part.split())
    return said


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    hosts: dict[str, tuple[str, dict[str, Any]]] = {
        name: (kind, variables) for name, (kind, variables, _) in FAULTS.items()
    }
    done = check(tmp_path_factory.mktemp("preflight"), {**hosts, **SOUND})
    return failures(done.stdout)


@pytest.mark.parametrize("host", FAULTS)
def test_a_fault_in_the_inventory_is_named(said: dict[str, str], host: str) -> None:
    assert FAULTS[host][2] in said.get(host, "it was accepted")


@pytest.mark.parametrize("host", SOUND)
def test_a_sound_host_is_not_held_up_by_others(said: dict[str, str], host: str) -> None:
    assert host not in said


PAIR: dict[str, tuple[str, dict[str, Any]]] = {
    "plane": ("control_plane", {}),
    "gpu": ("gpu_node", {}),
}


@pytest.mark.parametrize(
    "place",
    ["hosts.yml", "group_vars/gpu_nodes.yml", "group_vars/all/main.yml", "host_vars/gpu.yml"],
)
def test_settings_of_playbooks_are_refused_in_an_inventory(
    tmp_path: pathlib.Path, place: str
) -> None:
    said = {"gpu_nodes_serial": [1, "25%"], "gpu_nodes_max_fail_percentage": 10}
    hosts = {**PAIR, "gpu": ("gpu_node", said if place == "hosts.yml" else {})}
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text(yaml.safe_dump(said))
    done = check(tmp_path, hosts)
    assert done.returncode != 0
    # YAML doubles the quotes of a quoted text
    message = failures(done.stdout)["gpu"].replace("''", "'")
    assert "gpu_nodes_serial is set in the inventory" in message
    assert """--extra-vars '{"gpu_nodes_serial": [1, "25%"]}'""" in message
    assert "gpu_nodes_max_fail_percentage is set in the inventory" in message


@pytest.mark.parametrize(
    "said", ["gpu_nodes_serial=2", '{"gpu_nodes_serial": [1, "25%"]}', "@settings.yml"]
)
def test_settings_of_playbooks_are_accepted_on_the_command_line(
    tmp_path: pathlib.Path, said: str
) -> None:
    settings = tmp_path / "settings.yml"
    settings.write_text("gpu_nodes_serial: 50%\ngpu_nodes_max_fail_percentage: 12.5\n")
    said = said.replace("@settings.yml", f"@{settings}")
    done = check(tmp_path, PAIR, f"--extra-vars={said}")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("gpu_nodes_serial=1,25%", "gpu_nodes_serial: 1,25% is no size"),
        ("gpu_nodes_serial=0", "gpu_nodes_serial: 0 is no size"),
        ('{"gpu_nodes_serial": [1, "120%"]}', "gpu_nodes_serial: 120% is no size"),
        ("gpu_nodes_max_fail_percentage=10%", "gpu_nodes_max_fail_percentage: 10% is no"),
        ("gpu_nodes_max_fail_percentage=101", "gpu_nodes_max_fail_percentage: 101 is no"),
    ],
)
def test_a_setting_that_ansible_cannot_use_is_named(
    tmp_path: pathlib.Path, said: str, named: str
) -> None:
    done = check(tmp_path, PAIR, f"--extra-vars={said}")
    assert done.returncode != 0
    assert named in failures(done.stdout)["gpu"]


def test_a_domain_that_one_role_was_not_told_is_named(tmp_path: pathlib.Path) -> None:
    told = {f"{role}_domain": "x.test" for role in ("gpustack_extender", "kube_scheduler")}
    hosts: dict[str, tuple[str, dict[str, Any]]] = {
        "plane": ("control_plane", told),
        "gpu": ("gpu_node", {"gpustack_agent_domain": "x.test"}),
    }
    done = check(tmp_path, hosts)
    assert done.returncode != 0
    assert "say x.test and tencent.com" in words(done)


def test_a_domain_that_all_roles_were_told_is_accepted(tmp_path: pathlib.Path) -> None:
    roles = ("gpustack_extender", "kube_scheduler", "cluster_objects")
    done = check(
        tmp_path,
        {
            "plane": ("control_plane", {f"{role}_domain": "x.test" for role in roles}),
            "gpu": ("gpu_node", {"gpustack_agent_domain": "x.test"}),
        },
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("version", "served"), [("v1.29.9", 0), ("v1.30.0-rc.1+k3s1", 6)])
def test_the_current_context_gives_the_server_and_the_served_policies(
    tmp_path: pathlib.Path, version: str, served: int
) -> None:
    clusters = [
        {"name": name, "cluster": {"server": f"https://{name}.test"}} for name in ("one", "two")
    ]
    contexts = [
        {"name": f"to-{name}", "context": {"cluster": name, "user": "me"}}
        for name in ("one", "two")
    ]
    kubeconfig = {"clusters": clusters, "contexts": contexts, "current-context": "to-two"}
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    conditions = [
        "__cluster_objects_server.server == 'https://two.test'",
        f"__cluster_objects_served_policies | length == {served}",
    ]
    tasks = [
        {"include_vars": str(layout.ROOT / "roles/cluster_objects/defaults/main.yml")},
        {"include_vars": str(layout.ROOT / "roles/cluster_objects/vars/main.yml")},
        {"assert": {"that": conditions}},
    ]
    variables = {
        "cluster_objects_kubeconfig": str(tmp_path / "kubeconfig"),
        "__cluster_objects_cluster": {
            "version": {"server": {"kubernetes": {"gitVersion": version}}}
        },
    }
    play = {"hosts": "localhost", "gather_facts": False, "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = ansible(
        "ansible-playbook", "--inventory=localhost,", "--connection=local",
        f"--extra-vars={json.dumps(variables)}", f"{tmp_path}/play.yml",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
