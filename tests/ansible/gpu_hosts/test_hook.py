"""The hook's role lays a folder for each build, whole or not at all, and then leaves it alone."""

import json
import pathlib
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from gpustack.adapters.hook_build import HookBuild
from tests.ansible import layout, plugins
from tests.ansible.gpu_hosts.gpu_host import OLDER, GpuHost
from tests.ansible.rendering import ansible

pytestmark = pytest.mark.long

ARCHITECTURE = "x86_64"
FILES = ("libvcuda.so", "gpustack-hook-selftest", "ld.so.preload", "layouts")
# Another controller's run begins, and fails, when this one has looked at its copy.
OVERTAKING_SYNC = """#!/bin/sh
rm {layouts} && cd {root}
ansible-playbook --inventory=h, --connection=local {play} > /dev/null || true
"""
BUNDLES = plugins.load("playbooks/scripts/bundle.py")


class Stage:
    """A bundle and a host, which is this machine with folders of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.play = folder / "play.yml"
        self.bundle = folder / "bundle"
        self.host = GpuHost(folder / "host")
        self.hooks = self.host.state / "hooks"
        self.agent = folder / "agent.yml"
        shutil.rmtree(self.hooks)

    def make_bundle(self, version: str, library: str = "library") -> str:
        """Write a bundle as the script does; returns the name of its build."""
        files = self.bundle / "hook" / ARCHITECTURE
        shutil.rmtree(files, ignore_errors=True)
        files.mkdir(parents=True)
        for name in FILES:
            (files / name).write_text(library if name == "libvcuda.so" else name)
        (files / "ld.so.preload").write_text(BUNDLES.PRELOAD)
        sums = {name: BUNDLES.sha256(files / name) for name in FILES}
        build: str = BUNDLES.hook_build(version, sums)
        hook = {ARCHITECTURE: {"build": build, "files": sums}}
        (self.bundle / "manifest.json").write_text(json.dumps({"version": version, "hook": hook}))
        return build

    def run(
        self, *parts: str, check: bool = False, programs: pathlib.Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run entry points of the role, with programs that go before this machine's."""
        tasks: list[dict[str, Any]] = [
            {"import_role": {"name": "gpustack_hook", "tasks_from": part}} for part in parts
        ]
        variables = {
            "ansible_facts": {"architecture": ARCHITECTURE},
            "gpustack_hook_bundle": str(self.bundle),
            "gpustack_hook_agent_configuration": str(self.agent),
            **self.host.variables,
        }
        play = {"hosts": "all", "gather_facts": False, "vars": variables, "tasks": tasks}
        self.play.write_text(yaml.safe_dump([play]))
        return ansible(
            "ansible-playbook", "--inventory=h,", "--connection=local", str(self.play),
            *(["--check", "--diff"] if check else []), programs=programs,
        )  # fmt: skip

    def builds(self) -> list[str]:
        return sorted(path.name for path in self.hooks.iterdir())


@pytest.fixture
def stage(tmp_path: pathlib.Path) -> Stage:
    return Stage(tmp_path)


def test_a_build_is_what_the_agent_takes_and_a_second_run_leaves_it(stage: Stage) -> None:
    build = stage.make_bundle("0.1.0")
    done = stage.run("main", "verify")
    assert done.returncode == 0, done.stdout
    assert stage.builds() == [build]
    assert HookBuild(stage.hooks / build).folder() == stage.hooks / build
    assert "changed=0" in stage.run("main").stdout


def test_check_mode_passes_on_a_fresh_host_and_lays_nothing_out(stage: Stage) -> None:
    stage.make_bundle("0.1.0")
    done = stage.run("main", "remove_unused", check=True)
    assert done.returncode == 0, done.stdout
    assert not stage.hooks.exists()


def test_a_build_at_another_path_is_no_upgrade_of_its_own(stage: Stage) -> None:
    """That of 0.1.0 lies elsewhere than today's."""
    given = stage.hooks / "0.1.0-01234567"
    given.mkdir(parents=True)
    build = stage.make_bundle("0.2.0")
    assert stage.run("same_paths").returncode == 0  # no agent so far
    stage.agent.write_text(yaml.safe_dump({"hook": {"version": given.name}}))
    for text, status in ((BUNDLES.PRELOAD, 0), ("/usr/local/vcuda/libvcuda.so\n", 2)):
        (given / "ld.so.preload").write_text(text)
        done = stage.run("same_paths")
        assert done.returncode == status, done.stdout
    said = " ".join(done.stdout.split())
    assert f"hook, {given.name}, lies at another path in containers than {build}" in said
    assert "upgrade_parts=agent,hook" in said
    assert stage.builds() == [given.name]


@pytest.mark.nightly
def test_check_mode_names_a_file_that_is_not_the_bundles(stage: Stage) -> None:
    build = stage.make_bundle("0.1.0")
    stage.run("main")
    assert "changed=0" in stage.run("main", check=True).stdout
    (stage.hooks / build / "layouts").write_text("edited")
    (stage.hooks / build / "libvcuda.so").unlink()
    done = stage.run("main", check=True)
    assert "changed=1" in done.stdout, done.stdout
    assert [name for name in FILES if f"changed: [h] => (item={name})" in done.stdout] == [
        name for name in FILES if name in {"layouts", "libvcuda.so"}
    ]


@pytest.mark.nightly
def test_a_rebuilt_bundle_of_one_version_leaves_the_build_before_alone(stage: Stage) -> None:
    builds = []
    for library in ("one", "two"):
        builds.append(stage.make_bundle("0.1.0", library))
        assert stage.run("main").returncode == 0
    assert stage.builds() == sorted(builds)
    texts = {(stage.hooks / build / "libvcuda.so").read_text() for build in builds}
    assert texts == {"one", "two"}
    for build in builds:
        assert HookBuild(stage.hooks / build).folder()


@pytest.mark.nightly
def test_files_of_an_interrupted_run_are_never_a_build(stage: Stage) -> None:
    build = stage.make_bundle("0.1.0")
    left = stage.hooks / ".partial" / build
    left.mkdir(parents=True)
    (left / "libvcuda.so").write_text("half")
    (left / "junk").write_text("of another bundle")
    assert stage.run("main").returncode == 0
    assert stage.builds() == [build]
    assert HookBuild(stage.hooks / build).folder()


@pytest.mark.nightly
def test_a_copy_of_another_run_never_becomes_a_build(
    stage: Stage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    build = stage.make_bundle("0.1.0")
    sync = tmp_path_factory.mktemp("bin") / "sync"
    layouts = stage.bundle / "hook" / ARCHITECTURE / "layouts"
    sync.write_text(OVERTAKING_SYNC.format(layouts=layouts, root=layout.ROOT, play=stage.play))
    sync.chmod(0o755)
    stage.run("main", programs=sync.parent)
    assert not layouts.exists()
    for name in [name for name in stage.builds() if not name.startswith(".")]:
        assert (name, HookBuild(stage.hooks / name).folder()) == (build, stage.hooks / build)


def test_a_bundle_whose_file_was_changed_is_refused_before_it_is_used(stage: Stage) -> None:
    stage.make_bundle("0.1.0")
    (stage.bundle / "hook" / ARCHITECTURE / "libvcuda.so").write_text("other bytes")
    done = stage.run("main")
    assert done.returncode != 0
    assert "libvcuda.so is not the file that manifest.json describes" in " ".join(
        done.stdout.split()
    )
    assert not [name for name in stage.builds() if not name.startswith(".")]
    # an agent of a release that chose the highest version itself looks for this
    assert not [*stage.hooks.glob("*/libvcuda.so")]


def test_verify_names_a_file_that_was_written_to(stage: Stage) -> None:
    build = stage.make_bundle("0.1.0")
    assert stage.run("main").returncode == 0
    (stage.hooks / build / "libvcuda.so").write_text("other bytes")
    done = stage.run("verify")
    assert done.returncode != 0
    assert f"{build}/libvcuda.so is missing or differs from the bundle" in " ".join(
        done.stdout.split()
    )


@pytest.mark.nightly
def test_builds_go_when_nothing_uses_them(stage: Stage) -> None:
    for name in (OLDER, "0.0.8-00000000", "0.0.7-00000000"):
        (stage.hooks / name).mkdir(parents=True)
    build = stage.make_bundle("0.1.0")
    stage.host.give("11111111-2222-3333-4444-555555555555", OLDER)
    stage.host.keep("11111111-2222-3333-4444-555555555555")
    assert stage.run("main", "remove_unused").returncode == 0
    assert len(stage.builds()) == 4, "the build that the agent gives is unknown"
    (stage.hooks / ".partial" / "0.0.6-00000000").mkdir(parents=True)
    stage.agent.write_text("hook: {version: 0.0.8-00000000}\n")
    assert stage.run("remove_unused").returncode == 0
    assert stage.builds() == sorted([build, OLDER, "0.0.8-00000000"])
