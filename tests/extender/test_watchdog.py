"""systemd hears that we live only while a decision could be made."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from extender.server import Server
from gpustack.adapters.systemd import Notifier
from tests.extender.bench import eventually, settings
from tests.fakes.kube_api import FakeKubeApi


class Systemd:
    """What has been heard."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "notify")
        self.channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.channel.bind(self.address)
        self.channel.setblocking(False)

    def heard(self) -> list[bytes]:
        """Return what was said since the last time."""
        messages = []
        with contextlib.suppress(BlockingIOError):
            while True:
                messages.append(self.channel.recv(4096))
        return messages


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    made = Systemd(tmp_path)
    yield made
    made.channel.close()


@pytest.fixture
def server(api: FakeKubeApi, tmp_path: Path, systemd: Systemd) -> Iterator[Server]:
    made = Server(
        settings(api, tmp_path),
        notifier=Notifier(systemd.address),
        watchdog_seconds=0.000_001,
        contexts=None,
    )
    made.load()
    assert made.service is not None
    yield made
    made.service.stop()


def pings(server: Server, systemd: Systemd) -> bool:
    """Tick once; a watch may hold the lock just then, so a single tick may be silent."""
    server.tick()
    return b"WATCHDOG=1" in systemd.heard()


def test_ticks_say_that_we_live(server: Server, systemd: Systemd) -> None:
    for _ in range(2):
        eventually(lambda: pings(server, systemd))


def test_nothing_is_said_while_no_decision_can_be_made(server: Server, systemd: Systemd) -> None:
    assert server.service is not None
    taken, end = threading.Event(), threading.Event()
    view = server.service.view

    def hang() -> None:
        with view.lock:
            taken.set()
            end.wait()

    thread = threading.Thread(target=hang)
    thread.start()
    assert taken.wait(10)
    server.tick()
    assert b"WATCHDOG=1" not in systemd.heard()
    end.set()
    thread.join()
    eventually(lambda: pings(server, systemd))


def test_the_status_says_what_is_missing_and_then_that_we_are_ready(
    server: Server, systemd: Systemd
) -> None:
    said: list[bytes] = []

    def ready() -> bool:
        server.tick()
        said.extend(systemd.heard())
        return b"STATUS=ready" in said

    eventually(ready)
    assert [message for message in said if message.startswith(b"STATUS=")][-1] == b"STATUS=ready"
