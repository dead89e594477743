"""What apt-get itself has read of the driver's repository goes with it, and no other's."""

import os
import pathlib
import subprocess

import pytest

from tests.ansible.rendering import run_role

pytestmark = pytest.mark.long

PACKAGES = "Package: driver\nVersion: 1\nArchitecture: all\nFilename: driver.deb\nSize: 1\n"


def repository(folder: pathlib.Path) -> None:
    """Make a repository of one package, as a folder of a suite."""
    binary = folder / "dists/stable/main/binary-amd64"
    binary.mkdir(parents=True)
    (binary / "Packages").write_text(f"{PACKAGES}SHA256: {'0' * 64}\n")
    release = "Suite: stable\nArchitectures: amd64\nComponents: main\n"
    (folder / "dists/stable/Release").write_text(release)


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> dict[str, str]:
    """Make a host that has read two repositories; gives the environment that apt-get needs."""
    for folder in ("state/lists/partial", "cache/archives/partial", "sources"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("driver", "other"):
        repository(tmp_path / name)
        lines = [
            "Types: deb", f"URIs: file:{tmp_path / name}", "Suites: stable", "Components: main",
            "Architectures: amd64", "Trusted: yes",
        ]  # fmt: skip
        (tmp_path / f"sources/{name}.sources").write_text("\n".join([*lines, ""]))
    (tmp_path / "apt.conf").write_text(
        f'Dir::State "{tmp_path}/state"; Dir::State::status "/dev/null";'
        f'Dir::Cache "{tmp_path}/cache"; Dir::Etc::SourceList "-";'
        f'Dir::Etc::SourceParts "{tmp_path}/sources";'
    )
    environment = {"APT_CONFIG": str(tmp_path / "apt.conf")}
    subprocess.run(["apt-get", "update"], env=os.environ | environment, check=True)
    return environment


def forget(folder: pathlib.Path, settings: dict[str, str]) -> str:
    """Run the role's tasks; returns what Ansible said."""
    variables = {"__nvidia_driver_source": str(folder / "sources/driver.sources")}
    done = run_role(folder, "nvidia_driver", "forget_index", variables, settings=settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly
def test_the_drivers_index_goes_and_others_stay(
    tmp_path: pathlib.Path, settings: dict[str, str]
) -> None:
    lists = tmp_path / "state/lists"
    before = {file.name for file in lists.iterdir()}
    ours = {name for name in before if "_driver_" in name}
    assert {name.partition("dists_stable_")[2].partition(".")[0] for name in ours} == {
        "Release",
        "main_binary-amd64_Packages",
    }
    forget(tmp_path, settings)
    assert {file.name for file in lists.iterdir()} == before - ours
    assert "changed=0" in forget(tmp_path, settings)
    (tmp_path / "sources/driver.sources").unlink()
    assert "changed=0" in forget(tmp_path, settings)
