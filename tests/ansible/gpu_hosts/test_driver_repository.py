"""The index of the driver's repository is read until the driver's packages are here."""

import pathlib

import pytest
import yaml

from tests.ansible.rendering import ansible

pytestmark = pytest.mark.long

PACKAGES = ["libcuda1=535.261.03-1", "nvidia-smi"]


def reads_index(folder: pathlib.Path, *installed: str, changed: bool = False) -> bool:
    """Run the role's tasks on a host with these packages; says whether apt-get was asked."""
    (folder / "bin").mkdir(parents=True)
    lines = [f"echo {each.partition('=')[0]} installed {each} install" for each in installed]
    status = 0 if len(installed) == len(PACKAGES) else 1  # dpkg-query's, with an unknown package
    asked = folder / "asked"
    for name, body in {
        "dpkg-query": [*lines, f"exit {status}"],
        "apt-get": [f'echo "$@" > {asked}'],
    }.items():
        (folder / "bin" / name).write_text("\n".join(["#!/bin/sh", *body, ""]))
        (folder / "bin" / name).chmod(0o755)
    variables = {
        "ansible_facts": {"architecture": "x86_64"},
        "nvidia_driver_packages": PACKAGES,
        "__nvidia_driver_record": str(folder / "record"),
        "__nvidia_driver_repository": {"changed": changed},
    }
    tasks = [
        {"import_role": {"name": "nvidia_driver", "tasks_from": part}, "vars": variables}
        for part in ("before", "index")
    ]
    play = {"hosts": "localhost", "gather_facts": False, "tasks": tasks}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    done = ansible(
        "ansible-playbook", "--inventory=localhost,", "--connection=local",
        str(folder / "play.yml"), programs=folder / "bin",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed=0" in done.stdout
    return asked.exists() and asked.read_text().startswith("update ")


# apt-get ends with 0 where the repository doesn't answer, and then no package is found.
@pytest.mark.nightly
def test_the_index_is_read_until_all_packages_are_here(tmp_path: pathlib.Path) -> None:
    assert reads_index(tmp_path / "new", changed=True)
    assert reads_index(tmp_path / "none")
    assert reads_index(tmp_path / "some", "nvidia-smi=535.261.03-1")
    every = "libcuda1=535.261.03-1", "nvidia-smi=535.261.03-1"
    assert not reads_index(tmp_path / "all", *every)
    # the inventory names a version that came after the index
    assert reads_index(tmp_path / "older", "libcuda1=535.247.01-1", every[1])
