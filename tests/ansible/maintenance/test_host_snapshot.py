"""What a host runs before an upgrade is kept, and put back where the upgrade is cut short."""

import json
import os
import pathlib
import subprocess
from typing import Any

import pytest
import yaml

from tests.ansible.preflight.preflight_host import write_program
from tests.ansible.rendering import ansible, words

pytestmark = pytest.mark.long

OLD, NEW = "cpython-311-0123456789abcdef", "cpython-311-fedcba9876543210"


GROUP = 12_345 if os.geteuid() == 0 else os.getegid()  # of a file that a daemon has to read
SHOWN = "echo LoadState=loaded; echo ActiveState=active"


class Host:
    """A GPU host's files below a folder; `systemctl` writes down what it is asked."""

    def __init__(self, root: pathlib.Path) -> None:
        self._root = root
        self.kept = root / "kept"
        self.agent, self.units = root / "agent.yml", root / "units"
        self.programs, self.hooks = root / "opt", root / "state/hooks"
        self.units.mkdir()
        for name in (OLD, NEW):
            (self.programs / "venvs" / name).mkdir(parents=True)
            (self.programs / "venvs" / name / ".complete").write_text("")
        for build in ("old-01234567", "new-76543210"):
            (self.hooks / build).mkdir(parents=True)
        write_program(root, "systemctl", f'echo "$@" >> {root}/asked\n{SHOWN}')
        self.install(OLD, "old-01234567")

    def install(self, environment: str, build: str) -> None:
        """Lay what a version of the roles would lay."""
        self.agent.write_text(f"hook: {{version: {build}}}\n")
        (self.units / "gpustack-agent.service").write_text(
            f"[Unit]\nX-GpustackEnvironment={environment}\n"
        )
        link = self.programs / "venv"
        link.unlink(missing_ok=True)
        link.symlink_to(f"venvs/{environment}")

    @property
    def runs(self) -> tuple[str, str]:
        """Return environment and hook of the agent."""
        build = yaml.safe_load(self.agent.read_text())["hook"]["version"]
        return (self.programs / "venv").readlink().name, build

    @property
    def restarted(self) -> list[str]:
        """Return the units that were restarted since the last call."""
        asked = self._root / "asked"
        lines = asked.read_text().splitlines() if asked.exists() else []
        asked.unlink(missing_ok=True)
        return [line.split()[-1] for line in lines if line.startswith("restart ")]

    def run(
        self, entry: str, *arguments: str, **variables: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run the role's part; `variables` lack the role's prefix."""
        settings = {
            "__host_snapshot_agent": str(self.agent),
            "__host_snapshot_unit_path": str(self.units),
            "__host_snapshot_own": {"gpu_node": [str(self.agent), f"{self._root}/modules.conf"]},
            "python_service_path": str(self.programs),
            "gpustack_agent_state_path": str(self.hooks.parent),
            "host_snapshot_kind": "gpu_node",
            "host_snapshot_path": str(self.kept),
            **{f"host_snapshot_{name}": value for name, value in variables.items()},
        }
        role = {"import_role": {"name": "host_snapshot", "tasks_from": entry}}
        play = {"hosts": "h", "gather_facts": False, "tasks": [role]}
        (self._root / "play.yml").write_text(yaml.safe_dump([play]))
        return ansible(
            "ansible-playbook", "--inventory=h,", "--connection=local",
            f"--extra-vars={json.dumps(settings)}", *arguments, f"{self._root}/play.yml",
            programs=self._root / "programs",
        )  # fmt: skip

    def must(self, entry: str, *arguments: str, **variables: Any) -> str:
        done = self.run(entry, *arguments, **variables)
        assert done.returncode == 0, words(done)
        return words(done)


def test_an_upgrade_that_ends_midway_is_taken_back(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    os.chown(host.agent, os.geteuid(), GROUP)
    assert "changed=0" in host.must("take")
    host.install(NEW, "new-76543210")
    (tmp_path / "modules.conf").write_text("new\n")
    host.must("take")  # a rerun, which must not keep the new files
    host.must("restore")
    assert host.runs == (OLD, "old-01234567")
    assert host.agent.stat().st_gid == GROUP
    assert not (tmp_path / "modules.conf").exists()
    assert host.restarted == ["gpustack-agent.service"]


@pytest.mark.nightly
def test_a_whole_upgrade_is_rolled_back_once(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    host.must("take", packages=["libcuda1=535"])
    host.install(NEW, "new-76543210")
    host.must("done", packages=["libcuda1=550"])
    host.must("restore")
    assert host.runs == (OLD, "old-01234567")
    assert host.restarted == ["gpustack-agent.service"]
    assert "changed=0" in host.must("restore")
    assert host.restarted == []


def test_a_rollback_without_the_driver_leaves_that_to_the_next(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    host.must("take", packages=["libcuda1=535"])
    host.install(NEW, "new-76543210")
    host.must("done", packages=["libcuda1=550"])
    notes = host.kept / "gpu_node/before/state.json"
    for stays in (True, False):
        host.must("restore", packages_stay=stays)
        assert json.loads(notes.read_text())["packages_stay"] is stays
    assert host.runs == (OLD, "old-01234567")
    assert "changed=0" in host.must("restore")


@pytest.mark.nightly
def test_a_run_that_changes_nothing_keeps_the_last_upgrades_files(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    host.must("take")
    host.install(NEW, "new-76543210")
    host.must("done")
    assert "changed=0" in host.must("take")
    assert "changed=0" in host.must("done")
    host.must("restore")
    assert host.runs == (OLD, "old-01234567")


@pytest.mark.parametrize("gone", [pytest.param("environment", marks=pytest.mark.nightly), "hook"])
def test_a_host_that_cannot_go_back_is_left_as_it_is(tmp_path: pathlib.Path, gone: str) -> None:
    host = Host(tmp_path)
    host.must("take")
    host.install(NEW, "new-76543210")
    if gone == "hook":
        (host.hooks / "old-01234567").rmdir()
    else:
        (host.programs / "venvs" / OLD / ".complete").unlink()
    done = host.run("restore")
    assert done.returncode != 0
    assert "h can't go back, and was left as it is" in words(done)
    assert (host.runs, host.restarted) == ((NEW, "new-76543210"), [])


def test_a_run_that_fails_puts_back_nothing_of_an_earlier_upgrade(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    host.must("take")
    host.install(NEW, "new-76543210")
    host.must("done")
    done = host.run("restore", begun="gpu_node")  # another run has ended what this one began
    assert done.returncode != 0
    assert "h was left as it is" in words(done)
    assert host.runs == (NEW, "new-76543210")


def test_an_agent_goes_back_where_the_extender_came_before_it(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    link = host.programs / "venv"  # of both: it is the upgrade's since the extender's turn
    link.unlink()
    link.symlink_to(f"venvs/{NEW}")
    host.must("take")
    host.install(NEW, "new-76543210")
    host.must("restore")
    assert host.runs == (OLD, "old-01234567")


def test_an_interrupted_driver_upgrade_goes_on_with_the_driver(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    host.must("take", packages=["libcuda1=535"])
    done = host.run("take")
    assert done.returncode != 0
    assert "has begun with libcuda1=535" in words(done)
    host.must("take", packages=["libcuda1=550"])


def test_notes_that_are_cut_are_named(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    host.must("take")
    (host.kept / "gpu_node/now/state.json").write_text("")
    done = host.run("take")
    assert done.returncode != 0
    assert f"{host.kept}/gpu_node/now/state.json of h is cut" in words(done)


def test_a_host_that_keeps_nothing_says_so(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    done = host.run("restore")
    assert done.returncode != 0
    assert "h keeps nothing of before an upgrade" in words(done)


def test_a_first_installation_is_taken_back_to_nothing(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    (host.units / "gpustack-agent.service").unlink()
    host.agent.unlink()
    host.must("take")
    host.install(NEW, "new-76543210")
    host.must("restore")
    assert not host.agent.exists()
    assert list(host.units.iterdir()) == []
    assert host.restarted == []


@pytest.mark.nightly
def test_check_mode_keeps_and_restores_nothing(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    host.must("take", "--check")
    assert not host.kept.exists()
    host.must("take")
    host.install(NEW, "new-76543210")
    host.must("done", "--check")
    assert "changed=" in host.must("restore", "--check")
    assert (host.runs, host.restarted) == ((NEW, "new-76543210"), [])
    host.must("restore")
    assert host.runs == (OLD, "old-01234567")


@pytest.mark.nightly
def test_uninstall_removes_what_is_kept(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    host.must("take")
    host.must("uninstall")
    assert not host.kept.exists()
    assert "changed=0" in host.must("uninstall")
