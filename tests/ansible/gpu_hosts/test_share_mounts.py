"""Uninstall unmounts what the shares had, and nothing else."""

import pathlib
import subprocess

import pytest
import yaml

from tests.agent.mounts.namespace import alone
from tests.ansible import layout
from tests.ansible.rendering import ansible

pytestmark = pytest.mark.long

UID = "6f1a2b3c-0000-4000-8000-123456789abc"
# The others are at fixed paths, which are this machine's.
TASKS = (
    "Look for mounts of shares",
    "Unmount them",
    "Look for checkpoint, driver volumes and container folders",
    "Remove checkpoint, driver volumes and container folders",
)


def uninstall(
    folder: pathlib.Path, state: pathlib.Path, *, keep: bool = False
) -> subprocess.CompletedProcess[str]:
    tasks = layout.load(layout.ROOT / "roles/gpustack_agent/tasks/uninstall.yml")
    variables = {
        "gpustack_agent_state_path": str(state),
        "gpustack_agent_keep_state": keep,
    }
    chosen = [each for each in tasks if each["name"] in TASKS]
    assert [each["name"] for each in chosen] == list(TASKS)
    play = {"hosts": "h", "gather_facts": False, "vars": variables, "tasks": chosen}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    return ansible(
        "ansible-playbook", "--inventory=h,", "--connection=local", str(folder / "play.yml")
    )


def share(state: pathlib.Path, name: str) -> pathlib.Path:
    folder = state / "containers" / UID / name
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "gpustack", folder], check=True)
    (folder / "ledger").touch()
    return folder


def test_uninstall_unmounts_the_shares_and_keeps_others_mounts(tmp_path: pathlib.Path) -> None:
    def body() -> None:
        real = tmp_path / "real"
        share(real, "c0")
        with (share(real, "c1") / "ledger").open():  # a container that runs has it mounted
            (real / "others").mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "gpustack", real / "others"], check=True)
            (tmp_path / "state").symlink_to(real)
            done = uninstall(tmp_path, tmp_path / "state")
            assert done.returncode == 0, done.stdout
        assert [each.name for each in real.iterdir()] == ["others"]
        assert (real / "others").is_mount()

    alone(body)


def test_uninstall_keeps_the_mounts_of_a_state_that_is_kept(tmp_path: pathlib.Path) -> None:
    def body() -> None:
        folder = share(tmp_path / "state", "c0")
        done = uninstall(tmp_path, tmp_path / "state", keep=True)
        assert done.returncode == 0, done.stdout
        assert folder.is_mount()

    alone(body)
