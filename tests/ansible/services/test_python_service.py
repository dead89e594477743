"""The daemons' environment: one for each Python and bundle, from an archive that is compared."""

import hashlib
import io
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile
from typing import Any

import pytest
import yaml

from tests.ansible import layout
from tests.ansible.rendering import ansible, words

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.getuid() != 0, reason="gives files to root, as on a host: run as root"),
]

ARCHITECTURE = os.uname().machine
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
OTHER_PYTHONS = ("3.12", "3.13", "3.14")
PIP = "pip-0-py3-none-any.whl"
# Stands in for pip, which would need an index: it "installs" the daemon's program, which names the
# files that pip could choose from.
FAKE_PIP = """
import pathlib, sys
bin = pathlib.Path(sys.executable).parent
wheels = sorted(each.name for each in (bin.parent / "wheels").iterdir())
(bin / "gpustack").write_text(" ".join(wheels))
"""
# One of a controller whose run another begins anew, and ends, before it is over.
OVERTAKEN_PIP = """
import os, subprocess, sys
{pip}
if os.environ.pop("PYTHONPATH") and "OVERTAKES" in os.environ:
    sys.exit("no space left on device")
play = ["ansible-playbook", "--inventory=h,", "--connection=local", "{file}"]
environment = {{**os.environ, "OVERTAKES": "1"}}
subprocess.run(play, cwd="{root}", env=environment, stdout=subprocess.DEVNULL)
"""
# A Python of another version, as far as the role asks.
OTHER_PYTHON = """#!/bin/sh
case "$*" in
*cache_tag*) echo cpython-312 3.12 {architecture} ;;
*) exec {real} "$@" ;;
esac
"""


def write_tar(archive: pathlib.Path, files: dict[str, bytes]) -> None:
    with tarfile.open(archive, "w") as tar:
        for name, content in files.items():
            information = tarfile.TarInfo(name)
            information.size = len(content)
            tar.addfile(information, io.BytesIO(content))


def checksum(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Stage:
    """A bundle and a host, which is this machine with a folder of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._play = folder / "play.yml"
        self.bundle, self.opt = folder / "bundle", folder / "opt"
        self.commands = folder / "commands"
        for each in (self.bundle, self.commands):
            each.mkdir()
        self.archive = self.bundle / "any.tar"
        self.make_bundle(FAKE_PIP)

    def make_bundle(self, pip: str) -> None:
        zipped = io.BytesIO()
        with zipfile.ZipFile(zipped, "w") as wheel:
            wheel.writestr("pip/__init__.py", "")
            wheel.writestr("pip/__main__.py", pip)
        write_tar(self.archive, {PIP: zipped.getvalue(), "requirements.txt": b""})
        hosts: dict[str, dict[str, Any]] = {ARCHITECTURE: {}, "pdp11": {}}
        for architecture, python in itertools.product(hosts, (PYTHON, *OTHER_PYTHONS)):
            own = self.bundle / f"{architecture}-{python}.tar"
            write_tar(own, {f"own-{architecture}-{python}.whl": b""})
            both = {"archives": [self.archive.name, own.name], "sum": checksum(own)}
            hosts[architecture][python] = both
        archives = {each.name: checksum(each) for each in self.bundle.glob("*.tar")}
        wheels = {"archives": archives, "hosts": hosts, "pip": PIP}
        (self.bundle / "manifest.json").write_text(json.dumps({"wheels": wheels}))

    def environment(self, python: str = PYTHON) -> str:
        """Return the name of the environment that a Python of this machine gets."""
        own = self.bundle / f"{ARCHITECTURE}-{python}.tar"
        return f"cpython-{python.replace('.', '')}-{checksum(own)[:16]}"

    def run(
        self, python: str = sys.executable, *extra: str, part: str = "main"
    ) -> subprocess.CompletedProcess[str]:
        """Run the role, or a part of it, with the host's Python."""
        variables = {
            "python_service_bundle": str(self.bundle),
            "python_service_path": str(self.opt),
            "python_service_interpreter": python,
            "python_service_commands_path": str(self.commands),
        }
        tasks: list[dict[str, Any]] = [
            {"import_role": {"name": "python_service", "tasks_from": part}},
            {"debug": {"msg": "the unit names {{ python_service_environment | default('') }}"}},
        ]
        play = {"hosts": "all", "gather_facts": False, "vars": variables, "tasks": tasks}
        self._play.write_text(yaml.safe_dump([play]))
        return ansible(
            "ansible-playbook", "--inventory=h,", "--connection=local", *extra, str(self._play)
        )

    def overtake(self) -> None:
        """Have another controller's run begin, and fail, when this one's pip is done."""
        self.make_bundle(OVERTAKEN_PIP.format(pip=FAKE_PIP, file=self._play, root=layout.ROOT))

    def other_python(self) -> str:
        """Return a Python that says it is 3.12."""
        file = self._play.with_name("python3.12")
        file.write_text(OTHER_PYTHON.format(real=sys.executable, architecture=ARCHITECTURE))
        file.chmod(0o755)
        return str(file)

    def environments(self) -> list[str]:
        return sorted(path.name for path in (self.opt / "venvs").iterdir())

    def current(self) -> str:
        return (self.opt / "venv").resolve().name


@pytest.fixture
def stage(tmp_path: pathlib.Path) -> Stage:
    return Stage(tmp_path)


@pytest.mark.nightly
def test_another_python_gets_an_environment_of_its_own(stage: Stage) -> None:
    done = stage.run()
    assert done.returncode == 0, done.stdout
    first = stage.environment()
    assert (stage.environments(), stage.current()) == ([first], first)
    assert f"the unit names {first}" in done.stdout
    done = stage.run(stage.other_python())
    assert done.returncode == 0, done.stdout
    second = stage.environment("3.12")
    assert (stage.environments(), stage.current()) == (sorted([first, second]), second)
    assert f"the unit names {second}" in done.stdout


def test_a_host_gets_its_own_wheels_and_a_second_run_changes_nothing(stage: Stage) -> None:
    assert stage.run().returncode == 0
    venv = stage.opt / "venv"
    installed = (venv / "bin" / "gpustack").read_text()
    assert installed.split() == [f"own-{ARCHITECTURE}-{PYTHON}.whl", PIP, "requirements.txt"]
    assert not [*venv.glob("wheels*"), *venv.glob("*.tar")]
    assert (stage.commands / "gpustack").read_text() == installed
    assert "changed=0" in stage.run().stdout


def test_only_our_commands_come_and_go(stage: Stage) -> None:
    other = stage.commands / "kubectl-gpustack"
    other.write_text("of another")
    assert stage.run().returncode == 0
    assert sorted(each.name for each in stage.commands.iterdir()) == ["gpustack", other.name]
    done = stage.run(part="uninstall")
    assert done.returncode == 0, done.stdout
    assert list(stage.commands.iterdir()) == [other]
    assert other.read_text() == "of another"


def test_check_mode_passes_on_a_fresh_host(stage: Stage) -> None:
    done = stage.run(sys.executable, "--check")
    assert done.returncode == 0, done.stdout
    assert not stage.opt.exists()


def test_an_archive_that_was_changed_is_refused_before_it_is_unpacked(stage: Stage) -> None:
    with stage.archive.open("ab") as tar:
        tar.write(b"\0" * 512)  # the files in it are still the same
    done = stage.run()
    assert done.returncode != 0
    assert "any.tar is not the file that manifest.json describes" in " ".join(done.stdout.split())
    assert not list(stage.opt.glob(f"venvs/*/wheels/{PIP}"))
    assert not (stage.opt / "venv").exists()


# A daemon started from half an environment, and no later run mended it.
@pytest.mark.nightly
def test_an_environment_that_another_run_began_anew_is_not_whole(stage: Stage) -> None:
    stage.overtake()
    done = stage.run()
    assert done.returncode != 0
    assert "another run of site.yml" in words(done)
    assert not list(stage.opt.glob("venvs/*/.complete"))
    assert not (stage.opt / "venv").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("mask", [0o027, 0o077])
def test_a_hosts_umask_keeps_no_user_out_of_an_environment(stage: Stage, mask: int) -> None:
    before = os.umask(mask)
    try:
        done = stage.run()
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stdout
    venv = stage.opt / "venv"
    found = [stage.opt, stage.opt / "venvs", venv, *venv.rglob("*")]
    assert venv / "bin" / "gpustack" in found
    assert [path for path in found if path.stat().st_mode & 0o004 == 0] == []


# What is left of a removal that was ended would be a whole one for a site that goes back.
@pytest.mark.parametrize("part", [pytest.param("main", marks=pytest.mark.nightly), "uninstall"])
def test_the_mark_of_a_whole_environment_is_removed_first(stage: Stage, part: str) -> None:
    for name in ("cpython-307-0123456789abcdef", "cpython-308-0123456789abcdef"):
        (stage.opt / "venvs" / name).mkdir(parents=True)
        (stage.opt / "venvs" / name / ".complete").touch()
    done = stage.run(part=part)
    assert done.returncode == 0, done.stdout
    for name in ("cpython-307-0123456789abcdef", "cpython-308-0123456789abcdef"):
        removed = re.findall(rf"changed: \[h\] => \(item=(\S+/{name}\S*)\)", done.stdout)
        whole = str(stage.opt / "venvs" / name)
        assert removed == [f"{whole}/.complete", whole]


@pytest.mark.nightly
def test_the_previous_environment_stays_where_the_path_is_a_link(stage: Stage) -> None:
    disk = stage.opt.with_name("disk")
    previous, older = (disk / "venvs" / f"cpython-30{minor}-0123456789abcdef" for minor in (8, 7))
    for each in (previous, older):
        each.mkdir(parents=True)
    (disk / "venv").symlink_to(f"venvs/{previous.name}")
    stage.opt.symlink_to(disk)
    done = stage.run()
    assert done.returncode == 0, done.stdout
    assert stage.environments() == sorted([previous.name, stage.current()])


def test_an_environment_that_an_upgrade_may_go_back_to_stays(stage: Stage) -> None:
    before, previous, older = (f"cpython-30{minor}-0123456789abcdef" for minor in (9, 8, 7))
    for each in (before, previous, older):
        (stage.opt / "venvs" / each).mkdir(parents=True)
    (stage.opt / "venv").symlink_to(f"venvs/{previous}")
    done = stage.run(
        sys.executable, f"--extra-vars={json.dumps({'python_service_keep': [before]})}"
    )
    assert done.returncode == 0, done.stdout
    assert stage.environments() == sorted([before, previous, stage.current()])


@pytest.mark.nightly
def test_environments_of_others_in_its_folder_stay(stage: Stage) -> None:
    others = [stage.opt / "venvs" / "webserver", stage.opt / "webserver"]
    for other in others:
        other.mkdir(parents=True)
    for version in ("12", "13", "14"):  # three: the oldest is pruned
        python = pathlib.Path(stage.other_python())
        answer = f"cpython-3{version} 3.{version} "
        python.write_text(python.read_text().replace("cpython-312 3.12 ", answer))
        assert stage.run(str(python)).returncode == 0
    assert [name[:11] for name in stage.environments()] == [
        "cpython-313", "cpython-314", "webserver",
    ]  # fmt: skip
    done = stage.run(part="uninstall")
    assert done.returncode == 0, done.stdout
    assert sorted(stage.opt.rglob("*")) == sorted([*others, stage.opt / "venvs"])
    for other in others:
        other.rmdir()
    assert stage.run(part="uninstall").returncode == 0
    assert not stage.opt.exists()
