"""The real process, as systemd starts it, with its log and its port."""

import contextlib
import dataclasses
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.fakes.kube_api import FakeKubeApi

WAIT_SECONDS = 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A running `gpustack-extender`."""

    running: subprocess.Popen[bytes]
    port: int
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_SECONDS)

    def says(self, words: str) -> None:
        """Wait until the log has these words."""
        until(lambda: words in self.log, lambda: f"{words!r} is not in:\n{self.log}")

    def stop(self) -> int:
        self.running.send_signal(signal.SIGTERM)
        return self.running.wait(timeout=WAIT_SECONDS)


def until(condition: Callable[[], bool], complaint: Callable[[], str]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, complaint()
        time.sleep(0.01)


@contextlib.contextmanager
def process(
    api: FakeKubeApi, folder: Path, environment: Mapping[str, str] | None = None, **values: Any
) -> Iterator[Process]:
    """Run the command with a configuration of ``values`` until the block ends."""
    port = free_port()
    kubeconfig = str(api.write_kubeconfig(folder / "kubeconfig"))
    config = folder / "extender.yml"
    listen = {"listen": f"127.0.0.1:{port}", "kubeconfig": kubeconfig}
    config.write_text(yaml.safe_dump({**listen, **values}))
    with command(["--config", str(config)], port, folder, environment) as started:
        yield started


@contextlib.contextmanager
def of_snapshot(path: str, folder: Path) -> Iterator[Process]:
    """Run the command on a file until the block ends."""
    port = free_port()
    arguments = ["--snapshot", path, "--listen", f"127.0.0.1:{port}"]
    with command(arguments, port, folder) as started:
        yield started


@contextlib.contextmanager
def command(
    arguments: Sequence[str], port: int, folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """Run the command until the block ends."""
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(
            [sys.executable, "-m", "extender.main", *arguments], stderr=log, env=environment
        )
    started = Process(running=running, port=port, log_file=folder / "log")
    try:
        until(lambda: answers(started), lambda: started.log)
        yield started
    finally:
        try:
            if running.poll() is None:
                started.stop()
        finally:
            running.kill()
            running.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def answers(started: Process) -> bool:
    assert started.running.poll() is None, started.log
    try:
        started.connect().close()
    except OSError:
        return False
    return "Booting worker" in started.log
