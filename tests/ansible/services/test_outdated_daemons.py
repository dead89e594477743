"""A daemon that is older than its files, or has not come up, is restarted by the next run."""

import json
import os
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.ansible import layout
from tests.ansible.rendering import ansible

RESTARTED = "the handler came"


def play(folder: pathlib.Path, pid: int, written: float, state: str = "active") -> str:
    """Run the role's entry for a daemon with this PID and state, and a file of this time."""
    (folder / "bin").mkdir(parents=True)
    systemctl = f"#!/bin/sh\necho ActiveState={state}\necho MainPID={pid}\n"
    (folder / "bin" / "systemctl").write_text(systemctl)
    (folder / "bin" / "systemctl").chmod(0o755)
    (folder / "agent.yml").touch()
    os.utime(folder / "agent.yml", (written, written))
    said = {
        "python_service_unit": "gpustack-agent.service",
        "python_service_files": [str(folder / "agent.yml"), str(folder / "absent.service")],
        "python_service_handler": "Restart it",
    }
    role = {"import_role": {"name": "python_service", "tasks_from": "outdated"}}
    handlers = [{"name": "Restart it", "debug": {"msg": RESTARTED}}]
    one = {"hosts": "localhost", "gather_facts": False, "tasks": [role], "handlers": handlers}
    (folder / "play.yml").write_text(yaml.safe_dump([one]))
    done = ansible(
        "ansible-playbook", "--inventory=localhost,", "--connection=local",
        f"--extra-vars={json.dumps(said)}", str(folder / "play.yml"), programs=folder / "bin",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly
@pytest.mark.long
def test_a_daemon_that_is_older_than_its_files_is_restarted(tmp_path: pathlib.Path) -> None:
    later = time.time() + 3600
    # this process has run for seconds; no process is PID 0, systemd's word for none
    assert RESTARTED in play(tmp_path / "younger", os.getpid(), later)
    assert RESTARTED not in play(tmp_path / "older", os.getpid(), 0)
    assert RESTARTED not in play(tmp_path / "stopped", 0, later, "inactive")


@pytest.mark.nightly
@pytest.mark.long
def test_a_daemon_that_has_not_come_up_is_restarted(tmp_path: pathlib.Path) -> None:
    # with a process that isn't ready, or between two that crash
    assert RESTARTED in play(tmp_path / "waits", os.getpid(), 0, "activating")
    assert RESTARTED in play(tmp_path / "crashes", 0, 0, "activating")


def tasks_of(file: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Yield the tasks of a file in their order, with those of files that it imports."""
    for each in layout.load(file):
        yield each
        if "ansible.builtin.import_tasks" in each:
            yield from tasks_of(file.parent / each["ansible.builtin.import_tasks"])


@pytest.mark.parametrize(
    ("tasks", "daemons"),
    [("agent/tasks/configure", ["mount", "agent"]), ("extender/tasks/main", ["extender"])],
)
def test_all_files_that_restart_a_daemon_are_compared_with_its_start(
    tasks: str, daemons: list[str]
) -> None:
    found = list(tasks_of(layout.ROOT / f"roles/gpustack_{tasks}.yml"))
    flushed = next(at for at, each in enumerate(found) if "ansible.builtin.meta" in each)
    said = [each["vars"] for each in found[:flushed] if "outdated" in str(each)]
    units = [each["python_service_unit"] for each in said]
    assert units == [f"gpustack-{daemon}.service" for daemon in daemons]
    for daemon in said:
        notified = {
            next(each[name]["dest"] for name in each if name.endswith((".copy", ".template")))
            for each in found
            if each.get("notify") == daemon["python_service_handler"]
        }
        assert notified == set(daemon["python_service_files"])
