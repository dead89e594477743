"""Start a program, see it answer, and end it: one process with its output in a file."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

_READY_SECONDS = 60.0
_END_SECONDS = 15.0
_LOOK_SECONDS = 0.02
_TAIL_BYTES = 3000


class DidNotStart(Exception):
    """A program ended or stayed silent; the text ends with what it wrote last."""


def free_port() -> int:
    """Return a TCP port of loopback that no process listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Process:
    """A running program."""

    def __init__(
        self,
        command: Sequence[str | pathlib.Path],
        log: pathlib.Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it; its output is appended to ``log``.

        Args:
            command: the program and its arguments.
            log: a file.
            environment: what it gets beside our own environment.
        """
        self.name = pathlib.Path(command[0]).name
        self.log = log
        with log.open("ab") as sink:
            self._popen = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env={**os.environ, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    def wait_until(self, answers: Callable[[], bool]) -> None:
        """Return when it answers.

        Raises:
            DidNotStart: it ended before, or did not answer within a minute.
        """
        deadline = time.monotonic() + _READY_SECONDS
        while not answers():
            if not self.running or time.monotonic() > deadline:
                raise DidNotStart(f"{self.name} does not answer; {self.log} ends:\n{self._tail()}")
            time.sleep(_LOOK_SECONDS)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._popen.send_signal(number)

    def kill(self) -> None:
        """End it at once, as a power failure would."""
        self._popen.kill()
        self._popen.wait()

    def end(self) -> None:
        """Ask it to end, and make sure."""
        if not self.running:
            return
        self._popen.send_signal(signal.SIGCONT)  # a stopped one would not hear the next
        self._popen.terminate()
        try:
            self._popen.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    @property
    def resident_bytes(self) -> int:
        """Memory that it occupies now, its own and its children's, bytes."""
        return sum(_resident(pid) for pid in (self.pid, *_children(self.pid)))

    def _tail(self) -> str:
        return self.log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")


@contextlib.contextmanager
def running(
    command: Sequence[str | pathlib.Path],
    log: pathlib.Path,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Process]:
    """Run a program as long as the block does; arguments as ``Process``."""
    process = Process(command, log, environment)
    try:
        yield process
    finally:
        process.end()


def _children(pid: int) -> list[int]:
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def _resident(pid: int) -> int:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
