"""``gpustack get`` on a cluster: its changes, and an API server that refuses."""

import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli.snapshots import node, pod, quota
from tests.fakes.kube_api import FakeKubeApi


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    with FakeKubeApi() as server:
        server.create("nodes", node())
        server.create("pods", pod("web", 50, 8))
        yield server


class Command:
    """A command that runs until it is interrupted, as from a terminal."""

    def __init__(self, api: FakeKubeApi, folder: pathlib.Path, *words: str) -> None:
        path = api.write_kubeconfig(folder / "kubeconfig")
        # Programs that a shell starts in the background inherit that Ctrl-C is ignored.
        terminal = ["env", "--default-signal=INT"]
        command = [sys.executable, "-m", "gpustack.cli.main", *words, "--kubeconfig", str(path)]
        self.process = subprocess.Popen(
            [*terminal, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def line(self) -> str:
        """Wait for the next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def error(self) -> str:
        """Wait for the next line of stderr."""
        assert self.process.stderr is not None
        return self.process.stderr.readline().rstrip("\n")

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def test_changes_are_printed_as_they_come(api: FakeKubeApi, tmp_path: pathlib.Path) -> None:
    with Command(api, tmp_path, "get", "pods", "-w") as command:
        assert command.line().split()[:4] == ["EVENT", "NAMESPACE", "POD", "STATE"]
        assert command.line().split()[:4] == ["ADDED", "default", "web", "Waiting"]
        api.create("pods", pod("held", 60, 8, held=True))
        assert command.line().split()[:4] == ["ADDED", "default", "held", "Running"]
        message = {"type": "PodScheduled", "status": "False", "message": "no room"}
        api.edit("pods", "web", {"status": {"conditions": [message]}})
        changed = command.line()
        assert changed.split()[:4] == ["MODIFIED", "default", "web", "Waiting"]
        assert changed.endswith("no room")
        api.delete("pods", "web")
        assert command.line().split()[:3] == ["DELETED", "default", "web"]
    assert command.process.returncode == 128 + signal.SIGINT


def test_a_program_gets_an_object_a_line(api: FakeKubeApi, tmp_path: pathlib.Path) -> None:
    with Command(api, tmp_path, "get", "nodes", "-w", "-o", "json") as command:
        assert json.loads(command.line())["object"]["free_cores"] == 200
        api.create("pods", pod("held", 60, 8, held=True))
        changed = json.loads(command.line())
        assert (changed["type"], changed["object"]["free_cores"]) == ("MODIFIED", 140)


def test_a_quota_that_breaks_is_told_and_waited_for(
    api: FakeKubeApi, tmp_path: pathlib.Path
) -> None:
    api.create("configmaps", quota('{"default": {"quota": {"T4": 1}}}'))
    with Command(api, tmp_path, "get", "quotas", "-w", "--no-headers") as command:
        assert command.line().split() == ["ADDED", "default", "T4", "0", "1", "1"]
        api.edit("configmaps", "gpuquota", {"data": {"gpu_quota": "{"}}, "kube-system")
        assert "gpu_quota: is not JSON" in command.error()
        mended = {"data": {"gpu_quota": '{"default": {"quota": {"T4": 2}}}'}}
        api.edit("configmaps", "gpuquota", mended, "kube-system")
        assert command.line().split() == ["MODIFIED", "default", "T4", "0", "2", "2"]
