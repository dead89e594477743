"""The agent's role has the kernel refuse leases on files, and uninstall takes that back."""

import json
import pathlib
import subprocess

import pytest
import yaml

from tests.ansible.rendering import ansible

pytestmark = pytest.mark.long

# The kernel's setting is a file, since a test must not change this machine's.
_SYSCTL = """#!/bin/sh
case "$*" in
  "--values fs.leases-enable") cat {kernel} ;;
  "--write fs.leases-enable="[01]) echo "${{2#*=}}" >{kernel} ;;
  *) echo "$*: not known" >&2; exit 1 ;;
esac
"""


class Stage:
    """A host's kernel and its folder of settings, below one folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._kernel = folder / "leases-enable"
        self.setting = folder / "sysctl.d" / "90-gpustack.conf"
        self.setting.parent.mkdir()
        programs = folder / "programs"
        programs.mkdir()
        (programs / "sysctl").write_text(_SYSCTL.format(kernel=self._kernel))
        (programs / "sysctl").chmod(0o755)
        self.boot(1)

    def boot(self, enabled: int) -> None:
        self._kernel.write_text(f"{enabled}\n")

    @property
    def enabled(self) -> int:
        return int(self._kernel.read_text())

    def run(self, *, refused: bool, check: bool = False) -> subprocess.CompletedProcess[str]:
        """Set the kernel up, or back."""
        done = self._play("leases", {"__gpustack_agent_leases_refused": refused}, check=check)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def verify(self, *, refused: bool) -> subprocess.CompletedProcess[str]:
        return self._play("verify_leases", {"gpustack_agent_refuse_leases": refused}, check=False)

    def _play(
        self, tasks: str, variables: dict[str, bool], *, check: bool
    ) -> subprocess.CompletedProcess[str]:
        role = {"name": "gpustack_agent", "tasks_from": tasks}
        task = {"import_role": role, "vars": variables}
        file = self._folder / "play.yml"
        file.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
        extra = {"__gpustack_agent_leases_file": str(self.setting)}
        return ansible(
            "ansible-playbook", "--inventory=h,", "--connection=local",
            f"--extra-vars={json.dumps(extra)}", *(["--check", "--diff"] if check else []),
            str(file), programs=self._folder / "programs",
        )  # fmt: skip


@pytest.fixture
def stage(tmp_path: pathlib.Path) -> Stage:
    return Stage(tmp_path)


@pytest.mark.parametrize("before", [pytest.param(0, marks=pytest.mark.nightly), 1])
def test_leases_are_off_until_uninstall_puts_the_old_value_back(stage: Stage, before: int) -> None:
    stage.boot(before)
    stage.run(refused=True)
    assert stage.enabled == 0
    assert "\nfs.leases-enable = 0\n" in stage.setting.read_text()
    assert "changed=0" in stage.run(refused=True).stdout
    stage.run(refused=False)
    assert stage.enabled == before
    assert not stage.setting.exists()
    assert "changed=0" in stage.run(refused=False).stdout


@pytest.mark.nightly
def test_a_run_that_ended_half_way_is_finished_by_the_next(stage: Stage) -> None:
    stage.run(refused=True)
    stage.boot(1)  # the setting was written, and not applied
    stage.run(refused=True)
    assert stage.enabled == 0
    stage.run(refused=False)
    assert stage.enabled == 1


@pytest.mark.nightly
def test_check_mode_changes_neither_kernel_nor_setting(stage: Stage) -> None:
    assert "fs.leases-enable = 0" in stage.run(refused=True, check=True).stdout
    assert (stage.enabled, stage.setting.exists()) == (1, False)
    stage.run(refused=True)
    stage.run(refused=False, check=True)
    assert (stage.enabled, stage.setting.exists()) == (0, True)


@pytest.mark.nightly
def test_a_host_that_was_never_changed_is_left_alone(stage: Stage) -> None:
    stage.boot(0)
    assert "changed=0" in stage.run(refused=False).stdout
    assert stage.enabled == 0


def test_verify_names_a_kernel_that_gives_leases(stage: Stage) -> None:
    done = stage.verify(refused=True)
    assert done.returncode != 0
    assert "fs.leases-enable is 1: run site.yml" in " ".join(done.stdout.split())
    assert stage.verify(refused=False).returncode == 0
    stage.boot(0)
    assert stage.verify(refused=True).returncode == 0
