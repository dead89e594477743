"""Uninstall removes its own parts of a folder that a site has named, and nothing beside them."""

import pathlib
import subprocess
from typing import Any

import pytest
import yaml

from tests.ansible import layout
from tests.ansible.gpu_hosts.gpu_host import GpuHost
from tests.ansible.rendering import ansible

pytestmark = pytest.mark.long

# The others are at fixed paths, which are this machine's.
AGENT = (
    "Look for checkpoint, driver volumes and container folders",
    "Remove checkpoint, driver volumes and container folders",
)
OWN = (
    "checkpoint.json",
    "checkpoint.json.broken",
    "checkpoint.json.version-3",
    ".checkpoint.json.new",
    "health.json",
    "health.json.broken",
    "health.json.version-2",
    "driver",
    "containers",
)


def uninstall(folder: pathlib.Path, host: GpuHost) -> subprocess.CompletedProcess[str]:
    """Remove the state of agent and hook, and look whether it is gone."""
    tasks: list[dict[str, Any]] = layout.load(
        layout.ROOT / "roles/gpustack_agent/tasks/uninstall.yml"
    )
    hook = {"import_role": {"name": "gpustack_hook", "tasks_from": "uninstall"}}
    clean = {"import_role": {"name": "preflight", "tasks_from": "clean"}}
    play = {
        "hosts": "h",
        "gather_facts": False,
        "vars": {
            "preflight_kind": "gpu_node",
            "gpustack_agent_keep_state": False,
            **host.variables,
        },
        "tasks": [*(each for each in tasks if each["name"] in AGENT), hook, clean],
    }
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    return ansible(
        "ansible-playbook", "--inventory=h,", "--connection=local", str(folder / "play.yml")
    )


@pytest.fixture
def host(tmp_path: pathlib.Path) -> GpuHost:
    made = GpuHost(tmp_path)
    for name in OWN:
        (made.state / name).mkdir(exist_ok=True)
    return made


@pytest.mark.nightly
def test_the_agents_state_goes_with_its_folder(tmp_path: pathlib.Path, host: GpuHost) -> None:
    done = uninstall(tmp_path, host)
    assert done.returncode == 0, done.stdout
    assert not host.state.exists()
    assert "changed=0" in uninstall(tmp_path, host).stdout


@pytest.mark.nightly
def test_files_of_others_in_the_state_folder_stay(tmp_path: pathlib.Path, host: GpuHost) -> None:
    others = [host.state / "postgres", host.state / "photos"]
    for other in others:
        other.mkdir()
    done = uninstall(tmp_path, host)
    assert done.returncode == 0, done.stdout
    assert sorted(host.state.iterdir()) == sorted(others)
