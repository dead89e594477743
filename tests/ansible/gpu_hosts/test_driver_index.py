"""What apt-get itself has read of the driver's repository goes with it, and no other's."""

import os
import pathlib
import shutil
import subprocess

import pytest
import yaml

from tests.ansible import plugins
from tests.ansible.rendering import ansible

driver = plugins.load("roles/nvidia_driver/filter_plugins/nvidia_driver.py")

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
        'Dir::Etc::Parts "-";'  # a container image's apt keeps its indexes compressed
    )
    environment = {"APT_CONFIG": str(tmp_path / "apt.conf")}
    subprocess.run(["apt-get", "update"], env=os.environ | environment, check=True)
    return environment


def forget(folder: pathlib.Path, settings: dict[str, str]) -> str:
    """Run the role's tasks around the source's removal; returns what Ansible said."""
    source = folder / "sources/driver.sources"
    variables = {
        "__nvidia_driver_source": str(source),
        "__nvidia_driver_lists": str(folder / "state/lists"),
    }
    removal = {"ansible.builtin.file": {"path": str(source), "state": "absent"}}
    role = {"name": "nvidia_driver"}
    tasks = [
        {"ansible.builtin.import_role": {**role, "tasks_from": "find_index"}, "vars": variables},
        removal,
        {"ansible.builtin.import_role": {**role, "tasks_from": "remove_index"}, "vars": variables},
    ]
    play = {"hosts": "localhost", "gather_facts": False, "tasks": tasks}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    done = ansible(
        "ansible-playbook", "--inventory=localhost,", "--connection=local",
        str(folder / "play.yml"), settings=settings,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def listed(folder: pathlib.Path) -> set[str]:
    return {file.name for file in (folder / "state/lists").iterdir()}


@pytest.mark.long
@pytest.mark.nightly
def test_the_drivers_index_goes_and_others_stay(
    tmp_path: pathlib.Path, settings: dict[str, str]
) -> None:
    before = listed(tmp_path)
    ours = {name for name in before if "_driver_" in name}
    assert {name.partition("dists_stable_")[2].partition(".")[0] for name in ours} == {
        "Release",
        "main_binary-amd64_Packages",
    }
    forget(tmp_path, settings)
    assert listed(tmp_path) == before - ours
    assert "changed=0" in forget(tmp_path, settings)


# apt links to a flat repository's index on the host, and forgets a link to nothing.
@pytest.mark.long
@pytest.mark.nightly
def test_the_index_of_a_repository_that_is_gone_goes(
    tmp_path: pathlib.Path, settings: dict[str, str]
) -> None:
    source = tmp_path / "sources/driver.sources"
    source.write_text(f"Types: deb\nURIs: file:{tmp_path}/flat\nSuites: ./\nTrusted: yes\n")
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat/Packages").write_text(f"{PACKAGES}SHA256: {'0' * 64}\n")
    subprocess.run(["apt-get", "update"], env=os.environ | settings, check=True)
    before = listed(tmp_path)
    [name] = [name for name in before if "_flat_" in name]
    shutil.rmtree(tmp_path / "flat")
    link = tmp_path / "state/lists" / name
    assert link.is_symlink()
    assert not link.exists()
    forget(tmp_path, settings)
    assert listed(tmp_path) == before - {name}


def test_a_list_that_another_source_names_stays() -> None:
    def uris(*components: str) -> list[str]:
        base = "mirror_debian_dists_bookworm"
        lines = [f"'http://mirror/debian/dists/bookworm/InRelease' {base}_InRelease 0 "]
        for name in components:
            path = f"{name}/binary-amd64/Packages"
            lines.append(f"'http://mirror/{path}.xz' {base}_{path.replace('/', '_')} 0 ")
        return [*lines, "W: a warning"]

    named = ("InRelease", "Release", "main_binary-amd64_Packages.lz4", "InRelease_other")
    kept = [f"/lists/mirror_debian_dists_bookworm_{name}" for name in named]
    ours = "/lists/mirror_debian_dists_bookworm_non-free_binary-amd64_Packages.lz4"
    unused = driver.nvidia_driver_unused_lists
    assert unused([*kept, ours], uris("non-free"), uris("main")) == [ours]
    assert unused([*kept, ours], uris("non-free"), []) == [*kept[:2], ours]
    assert unused([*kept, ours], [], []) == []
