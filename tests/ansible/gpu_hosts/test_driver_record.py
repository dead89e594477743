"""Uninstall knows the driver's packages that the role has brought, whenever its run ended."""

import pathlib
import subprocess

import pytest
import yaml

from tests.ansible import layout
from tests.ansible.rendering import ansible

pytestmark = pytest.mark.long

# No repository has them: the role's own installation always fails here.
WANTED = ("gpustack-test-one", "gpustack-test-two=1.0-1", "gpustack-test-three")


class Stage:
    """A host, which is this machine, with a package list and a record of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self.record = folder / "record"
        self.seen = folder / "seen"
        (folder / "bin").mkdir()
        self.changed: list[str] = []
        self.write("apt-get", "exit 1")

    def write(self, program: str, body: str) -> None:
        path = self._folder / "bin" / program
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run(self, before: dict[str, str], after: dict[str, str]) -> list[str]:
        """Install; returns the packages that the record names while they come."""
        listed = [
            "".join(f"echo {name} {state}\n" for name, state in states.items())
            for states in (before, after)
        ]
        asked = self._folder / "asked"
        asked.unlink(missing_ok=True)
        self.write(
            "dpkg-query",
            f"if [ ! -e {asked} ]; then touch {asked}; {listed[0]}exit 1; fi\n"
            f"cp {self.record} {self.seen}\n{listed[1]}exit 1",
        )
        self.seen.unlink(missing_ok=True)
        settings = {
            "ansible_facts": {"architecture": "x86_64"},
            "nvidia_driver_packages": list(WANTED),
            "__nvidia_driver_record": str(self.record),
        }
        parts = [
            {"import_role": {"name": "nvidia_driver", "tasks_from": part}, "vars": settings}
            for part in ("before", "packages")
        ]
        play = {"hosts": "localhost", "gather_facts": False, "tasks": parts}
        (self._folder / "play.yml").write_text(yaml.safe_dump([play]))
        done: subprocess.CompletedProcess[str] = ansible(
            "ansible-playbook", "--inventory=localhost,", "--connection=local",
            str(self._folder / "play.yml"), programs=self._folder / "bin",
        )  # fmt: skip
        assert "Install the packages] ***" in done.stdout
        assert done.returncode == 2, done.stdout
        tasks = done.stdout.split("TASK [")
        self.changed = [each.partition("]")[0] for each in tasks if "\nchanged: " in each]
        return self.seen.read_text().split() if self.seen.exists() else []

    def recorded(self) -> list[str]:
        return self.record.read_text().split()


@pytest.fixture
def stage(tmp_path: pathlib.Path) -> Stage:
    return Stage(tmp_path)


def test_packages_are_written_down_before_they_come(stage: Stage) -> None:
    adopted = {"gpustack-test-one": "installed", "gpustack-test-two": "config-files"}
    assert stage.run(adopted, adopted) == ["gpustack-test-three", "gpustack-test-two"]


@pytest.mark.nightly
def test_packages_that_did_not_come_are_not_the_roles(stage: Stage) -> None:
    adopted = {"gpustack-test-one": "installed"}
    came = {**adopted, "gpustack-test-two": "installed", "gpustack-test-three": "unpacked"}
    stage.run(adopted, came)
    assert stage.recorded() == ["gpustack-test-two"]
    # the next run finds what the one before has brought
    assert stage.run(came, came) == ["gpustack-test-three", "gpustack-test-two"]
    assert stage.recorded() == ["gpustack-test-two"]


@pytest.mark.nightly
def test_a_name_that_no_package_has_changes_the_record_of_no_later_run(stage: Stage) -> None:
    # of a virtual package: apt installs the one that provides it
    came = {"gpustack-test-one": "installed", "gpustack-test-two": "installed"}
    stage.run({}, came)
    assert len(stage.changed) == 1
    stage.run(came, came)
    assert stage.changed == []
    assert stage.recorded() == ["gpustack-test-one", "gpustack-test-two"]


def test_packages_that_were_written_down_and_never_came_are_forgotten(stage: Stage) -> None:
    stage.record.write_text("gpustack-test-one\ngpustack-test-two\nnvidia-earlier\nunfinished\n")
    here = {
        "gpustack-test-one": "installed",
        "gpustack-test-two": "not-installed",
        "unfinished": "half-configured",
    }
    stage.run(here, here)
    assert stage.recorded() == ["gpustack-test-one", "unfinished"]


def test_no_installation_removes_packages_of_others() -> None:
    files = (layout.ROOT / "roles/nvidia_driver/tasks").glob("*.yml")
    installations = [
        task["ansible.builtin.apt"]
        for file in files
        for each in layout.load(file)
        for task in [each, *each.get("block", ())]
        if task.get("ansible.builtin.apt", {}).get("state") == "present"
    ]
    assert len(installations) == 3
    assert all(each.get("fail_on_autoremove") is True for each in installations)
