"""The real process, as systemd starts it, with its log and its port."""

import contextlib
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.control_plane import processes
from tests.extender.client import WAIT_SECONDS, Answer, call, eventually
from tests.fakes.kube_api import FakeKubeApi


class Process(processes.Process):
    """A running `gpustack-extender`, or another module's variant of it."""

    def __init__(
        self, arguments: Sequence[str], port: int, folder: Path, module: str = "extender.main"
    ) -> None:
        super().__init__([sys.executable, "-m", module, *arguments], folder / "log")
        self.port = port

    @property
    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text()

    def says(self, words: str) -> None:
        """Wait until the log has these words."""
        eventually(lambda: words in self.said, lambda: f"{words!r} is not in:\n{self.said}")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_SECONDS)

    def call(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Make one HTTP request on its own connection."""
        return call(self.port, method, path, body)

    @property
    def worker(self) -> int:
        """The PID of the process that answers."""
        return int(self.said.rpartition("Booting worker with pid: ")[2].split()[0])

    def answers(self) -> bool:
        """Whether the process takes requests."""
        try:
            self.connect().close()
        except OSError:
            return False
        return "Booting worker" in self.said

    def ended(self) -> int:
        """Wait until the process has ended; returns its exit status."""
        return self._popen.wait(WAIT_SECONDS)

    def stop(self) -> int:
        """End the process, as systemd does; returns its exit status."""
        self.signal(signal.SIGTERM)
        return self.ended()


@contextlib.contextmanager
def process(
    api: FakeKubeApi, folder: Path, *, module: str = "extender.main", **values: Any
) -> Iterator[Process]:
    """Run the command with a configuration of ``values`` until the block ends."""
    port = processes.free_port()
    kubeconfig = str(api.write_kubeconfig(folder / "kubeconfig"))
    config = folder / "extender.yml"
    listen = {"listen": f"127.0.0.1:{port}", "kubeconfig": kubeconfig}
    config.write_text(yaml.safe_dump({**listen, **values}))
    with command(["--config", str(config)], port, folder, module) as started:
        yield started


@contextlib.contextmanager
def of_snapshot(path: str, folder: Path) -> Iterator[Process]:
    """Run the command on a file until the block ends."""
    port = processes.free_port()
    arguments = ["--snapshot", path, "--listen", f"127.0.0.1:{port}"]
    with command(arguments, port, folder) as started:
        yield started


@contextlib.contextmanager
def command(
    arguments: Sequence[str], port: int, folder: Path, module: str = "extender.main"
) -> Iterator[Process]:
    """Run the command until the block ends."""
    started = Process(arguments, port, folder, module)
    try:
        started.wait_until(started.answers)
        yield started
    finally:
        started.end()
