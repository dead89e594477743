"""The testbed itself: it comes up at once and goes without a trace, also after a killed run."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from tests.cluster import opening, rollout
from tests.testbed import paths

pytestmark = pytest.mark.testbed

NAME = "trace"


def traces() -> list[str]:
    """Return what of this testbed is on the machine: containers, volumes, networks, mounts."""
    found = []
    for kind in (
        ["ps", "--all", "--external", "--format={{.Names}}"],
        ["volume", "ls", "--format={{.Name}}"],
        ["network", "ls", "--format={{.Name}}"],
    ):
        done = subprocess.run(["podman", *kind], capture_output=True, text=True, check=True)
        found += [name for name in done.stdout.split() if NAME in name]
    mounts = pathlib.Path("/proc/self/mounts").read_text().splitlines()
    found += [line for line in mounts if f"{NAME}-" in line]
    found += [str(path) for path in paths.state_root().glob(NAME)]
    return found


def listed(*folders: str) -> set[str]:
    """Return what lies in folders where podman works."""
    return {str(path) for folder in folders for path in pathlib.Path(folder).iterdir()}


def test_a_testbed_that_was_killed_while_it_started_is_removed_whole() -> None:
    before = listed("/sys/class/net", "/var/tmp")
    starting = subprocess.Popen(
        [sys.executable, "-m", "tests.testbed", "up", "--name", NAME, "--gpu-hosts", "1"],
        cwd=rollout.ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert starting.stdout is not None
    for line in starting.stdout:
        if "waiting for the cluster" in line:
            break
    os.killpg(starting.pid, signal.SIGKILL)
    starting.wait()
    starting.stdout.close()
    assert traces(), "nothing was started, so there is nothing to show"
    opening.close_site(NAME)
    assert traces() == []
    assert listed("/sys/class/net", "/var/tmp") <= before


def test_removing_a_missing_testbed_is_no_error() -> None:
    opening.close_site(NAME)
    assert traces() == []
