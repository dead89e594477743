"""Preflight takes a whole bundle, as its manifest describes it, or names the command to run."""

import json
import pathlib
import platform
import re
import subprocess
import sys
from typing import Any

import pytest
import yaml

from tests.ansible import plugins
from tests.ansible.rendering import ansible, words

pytestmark = pytest.mark.long

ARCHITECTURE = platform.machine()
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
SUM = "0123456789abcdef" * 4
BUNDLES = plugins.load("playbooks/scripts/bundle.py")


@pytest.fixture
def bundle(tmp_path: pathlib.Path) -> pathlib.Path:
    """Write a bundle for this machine."""
    folder = tmp_path / "bundle"
    hook = folder / "hook" / ARCHITECTURE
    hook.mkdir(parents=True)
    (folder / "any.tar").write_text("wheels")
    (hook / "libvcuda.so").write_text("library")
    sums = {"libvcuda.so": BUNDLES.sha256(hook / "libvcuda.so")}
    manifest = {
        "format": BUNDLES.FORMAT,
        "version": "0.1.0",
        "architectures": [ARCHITECTURE],
        "pythons": [PYTHON],
        "hook": {ARCHITECTURE: {"build": BUNDLES.hook_build("0.1.0", sums), "files": sums}},
        "wheels": {
            "archives": {"any.tar": BUNDLES.sha256(folder / "any.tar")},
            "hosts": {ARCHITECTURE: {PYTHON: {"archives": ["any.tar"], "sum": SUM}}},
        },
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def check(bundle: pathlib.Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run preflight's check of a bundle; returns the run and its words in one line."""
    variables: dict[str, Any] = {
        "ansible_facts": {"architecture": ARCHITECTURE},
        "preflight_kind": "gpu_node",
        "preflight_bundle": str(bundle),
        "preflight_interpreter": sys.executable,
        "preflight_service_path": str(bundle.parent / "opt" / "gpustack"),
    }
    task = {"import_role": {"name": "preflight", "tasks_from": "bundle"}}
    play = {"hosts": "all", "gather_facts": False, "vars": variables, "tasks": [task]}
    file = bundle.parent / "play.yml"
    file.write_text(yaml.safe_dump([play]))
    done = ansible(
        "ansible-playbook", "--inventory=localhost,", "--connection=local", *arguments, str(file)
    )
    return done, words(done)


def test_a_whole_bundle_is_taken(bundle: pathlib.Path) -> None:
    done, words = check(bundle)
    assert done.returncode == 0, words


@pytest.mark.parametrize("name", ["any.tar", f"hook/{ARCHITECTURE}/libvcuda.so"])
def test_a_file_that_was_changed_is_named(bundle: pathlib.Path, name: str) -> None:
    (bundle / name).write_text("other bytes")
    done, words = check(bundle)
    assert done.returncode != 0
    assert f"{name} is missing or not the file that manifest.json describes" in words


def test_a_bundle_of_another_format_is_refused(bundle: pathlib.Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    (bundle / "manifest.json").write_text(json.dumps({**manifest, "format": 1}))
    done, words = check(bundle)
    assert done.returncode != 0
    assert f"is of format 1 and these roles read format {BUNDLES.FORMAT}" in words


@pytest.mark.parametrize("lacks", ["architectures", "pythons"])
def test_a_bundle_without_the_hosts_kind_is_refused(bundle: pathlib.Path, lacks: str) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    (bundle / "manifest.json").write_text(json.dumps({**manifest, lacks: ["other"]}))
    done, words = check(bundle)
    assert done.returncode != 0
    assert f"this host is {ARCHITECTURE} with Python {PYTHON}. Build it for all" in words
    assert re.search(rf"--arch.* {ARCHITECTURE} .*--python.* {PYTHON}\"", words)


def test_a_disk_without_room_for_a_new_environment_is_refused(bundle: pathlib.Path) -> None:
    much = 1 << 30  # MiB; no machine of these tests has as much
    no_room = f"--extra-vars={json.dumps({'__preflight_room_mib': much})}"
    done, words = check(bundle, no_room)
    assert done.returncode != 0
    assert f"MiB free, and our daemons' environment takes {much} MiB" in words
    name = f"cpython-311-{SUM[:16]}"
    whole = bundle.parent / "opt" / "gpustack" / "venvs" / name
    whole.mkdir(parents=True)
    assert check(bundle, no_room)[0].returncode != 0
    (whole / ".complete").touch()
    done, words = check(bundle, no_room)
    assert done.returncode == 0, words
