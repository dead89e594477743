"""Preflight as a whole, on a cluster of one host that is control plane and GPU host."""

import json
import pathlib
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.ansible import api_server, layout
from tests.ansible.api_server import node
from tests.ansible.kube_scheduler.scheduler_host import MANIFEST, Host
from tests.ansible.kube_scheduler.trial.laid_processes import lay_process
from tests.ansible.rendering import ansible

pytestmark = pytest.mark.long

FACTS = """\
from ansible.module_utils.basic import AnsibleModule
systemd = {{"version": 252}}
facts = {{"service_mgr": "systemd", "systemd": systemd, "system": "Linux", "pkg_mgr": "{packages}",
         "distribution": "Debian", "distribution_version": "12.8"}}
module = AnsibleModule(argument_spec={{}}, supports_check_mode=True)
module.exit_json(ansible_facts={{"architecture": "{architecture}", **facts}})
"""
API_SERVER = (
    "kube-apiserver",
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
)
PROGRAMS = {
    "containerd": "#!/bin/sh\necho version = 3\n",
    "findmnt": "#!/bin/sh\necho shared\n",
}


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Iterator[Host]:
    """Run a scheduler as kubeadm does, beside an API server, a kubelet and containerd."""
    found = Host(tmp_path)
    lay_process(tmp_path, 9, command=API_SERVER)
    programs = tmp_path / "bin"
    for name, text in PROGRAMS.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (tmp_path / "kubelet" / "device-plugins").mkdir(parents=True)
    try:
        found.manifest.write_text(MANIFEST)
        found.start_kubelet()
        with socket.socket(socket.AF_UNIX) as kubelet:
            kubelet.bind(str(tmp_path / "kubelet" / "device-plugins" / "kubelet.sock"))
            kubelet.listen()
            yield found
    finally:
        found.stop()


def tasks_of(role: str) -> Iterator[dict[str, Any]]:
    """Yield a role's tasks; those of blocks set no facts for other roles."""
    for file in (layout.ROOT / "roles" / role / "tasks").glob("*.yml"):
        yield from layout.load(file)


def write_bundle(folder: pathlib.Path) -> None:
    """Write a bundle without files of a hook."""
    folder.mkdir()
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    (folder / "any.tar").write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    ours = {"archives": ["any.tar"], "sum": empty}
    manifest = {
        "format": 4,
        "architectures": [platform.machine()],
        "pythons": [python],
        "hook": {platform.machine(): {"build": "0.1.0-01234567", "files": {}}},
        "wheels": {
            "archives": {"any.tar": empty},
            "hosts": {platform.machine(): {python: ours}},
        },
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))


def variables(host: Host, kubeconfig: pathlib.Path) -> dict[str, Any]:
    """Return the inventory's variables: the paths of files that a real host has elsewhere."""
    bundle, kubelet = host.folder / "bundle", host.folder / "kubelet"
    write_bundle(bundle)
    (kubelet / "kubelet.conf").touch()
    bundles = [f"{role}_bundle" for role in ("preflight", "gpustack_hook", "gpustack_agent")]
    return {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_facts_modules": ["facts_of_one_host"],
        **dict.fromkeys([*bundles, "gpustack_extender_bundle"], str(bundle)),
        "python_service_interpreter": sys.executable,
        "gpustack_agent_kubelet_path": str(kubelet),
        "gpustack_agent_kubeconfig": str(kubelet / "kubelet.conf"),
        "cluster_objects_kubeconfig": str(kubeconfig),
        "kube_scheduler_manager": "static_pod",
        "kube_scheduler_config_path": str(host.config),
        "kube_scheduler_manifest_path": str(host.manifest),
        "kube_scheduler_health_url": host.health_url,
    }


def preflight(host: Host, packages: str = "apt") -> subprocess.CompletedProcess[str]:
    """Run preflight.yml on the host `one`, which has this package manager."""
    modules = host.folder / "modules"
    modules.mkdir()
    facts = FACTS.format(architecture=platform.machine(), packages=packages)
    (modules / "facts_of_one_host.py").write_text(facts)
    extra = json.dumps({"__kube_scheduler_proc": str(host.folder / "proc")})
    with api_server.serving(host.folder, {"nodes": [node("one", {})]}) as kubeconfig:
        one: dict[str, Any] = {"hosts": {"one": {}}}
        groups = {"kube_control_plane": one, "gpu_nodes": one}
        said = {"all": {"vars": variables(host, kubeconfig), "children": groups}}
        (host.folder / "hosts.yml").write_text(json.dumps(said))
        return ansible(
            "ansible-playbook", f"--inventory={host.folder}/hosts.yml",
            f"--module-path={modules}", f"--extra-vars={extra}", "playbooks/preflight.yml",
            programs=host.folder / "bin",
        )  # fmt: skip


@pytest.mark.nightly
def test_a_host_of_both_groups_passes(host: Host) -> None:
    done = preflight(host)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.nightly
def test_a_host_that_cannot_install_the_drivers_packages_is_named(host: Host) -> None:
    done = preflight(host, "dnf")
    assert done.returncode != 0
    assert "This role installs Debian packages, and this host has dnf" in done.stdout


def test_preflight_knows_the_facts_that_roles_hand_on() -> None:
    tasks = [task for role in layout.ROLES for task in tasks_of(role)]
    set_facts = [task["ansible.builtin.set_fact"] for task in tasks if "set_fact" in str([*task])]
    names = {name for each in set_facts for name in each if not name.startswith("__")}
    known = layout.load(layout.ROOT / "roles/preflight/vars/main.yml")["__preflight_handed_on"]
    assert names == set(known)
