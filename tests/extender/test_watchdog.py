"""systemd gets a watchdog ping only while a decision is possible."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from extender.application import ExtenderApplication
from extender.cache.cache import ClusterCache
from extender.extender import Extender
from extender.extender_base import ExtenderBase
from extender.offline import OfflineExtender
from extender.settings import load as load_settings
from gpustack.adapters.systemd import Notifier
from gpustack.adapters.web.listener import Listener
from tests.cli import snapshots
from tests.extender.client import WAIT_SECONDS, eventually
from tests.extender.mini_cluster import settings
from tests.fakes.kube_api import FakeKubeApi


class Systemd:
    """The messages that systemd has got."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "notify")
        self.channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.channel.bind(self.address)
        self.channel.setblocking(False)

    def heard(self) -> list[bytes]:
        """Return the messages since the last call."""
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


Load = Callable[[ExtenderBase, float], ExtenderApplication]


@pytest.fixture
def load(api: FakeKubeApi, tmp_path: Path, systemd: Systemd) -> Iterator[Load]:
    """Makes applications of these extenders, and stops them."""
    with contextlib.ExitStack() as stack:

        def made(service: ExtenderBase, seconds: float) -> ExtenderApplication:
            notifier, chosen = Notifier(systemd.address), settings(api, tmp_path)
            application = ExtenderApplication(service, chosen, notifier, watchdog_seconds=seconds)
            stack.callback(service.stop)
            return application

        yield made


@pytest.fixture
def quiet(tmp_path: Path) -> OfflineExtender:
    """An extender whose lock only the test takes: a file has no watches."""
    path = snapshots.write(tmp_path, snapshots.node())
    return OfflineExtender(load_settings(None), path)


def others_get(view: ClusterCache) -> bool:
    """Whether another thread can take the cache's lock now."""

    def take() -> bool:
        got = view.lock.acquire(blocking=False)
        if got:
            view.lock.release()
        return got

    with ThreadPoolExecutor(1) as other:
        return other.submit(take).result()


@pytest.mark.parametrize(("seconds", "pings"), [(0.000_001, 3), (3600.0, 1), (0.0, 0)])
def test_ticks_ping_the_watchdog_as_often_as_systemd_asks(
    load: Load, quiet: OfflineExtender, systemd: Systemd, seconds: float, pings: int
) -> None:
    application = load(quiet, seconds)
    for _ in range(3):
        application.tick()
    assert systemd.heard() == [b"STATUS=ready", *[b"WATCHDOG=1"] * pings]
    assert others_get(quiet.cache)


def test_no_tick_pings_the_watchdog_while_decisions_hang(
    load: Load, quiet: OfflineExtender, systemd: Systemd
) -> None:
    application = load(quiet, 0.000_001)
    taken, end = threading.Event(), threading.Event()

    def hang() -> None:
        with quiet.cache.lock:
            taken.set()
            end.wait(WAIT_SECONDS)

    thread = threading.Thread(target=hang)
    thread.start()
    assert taken.wait(WAIT_SECONDS)
    application.tick()
    assert systemd.heard() == [b"STATUS=ready"]
    end.set()
    thread.join()
    application.tick()
    assert systemd.heard() == [b"WATCHDOG=1"]


def test_the_status_names_the_missing_lists_and_then_says_ready(
    load: Load, api: FakeKubeApi, systemd: Systemd, tmp_path: Path
) -> None:
    held = api.faults.hold("GET", "/pods$")
    application = load(Extender(settings(api, tmp_path)), 0.0)
    said: list[bytes] = []

    def says(wanted: bytes) -> bool:
        application.tick()
        said.extend(systemd.heard())
        return bool(said) and said[-1] == wanted

    eventually(lambda: says(b"STATUS=the first list of pods is still missing"))
    held.release()
    eventually(lambda: says(b"STATUS=ready"))


class _Broken(Listener):
    async def serve(self, *_: object) -> None:
        raise RuntimeError("a defect")


def test_no_tick_pings_the_watchdog_once_readers_are_not_answered(
    quiet: OfflineExtender,
    api: FakeKubeApi,
    tmp_path: Path,
    systemd: Systemd,
    caplog: pytest.LogCaptureFixture,
) -> None:
    application = ExtenderApplication(
        quiet,
        settings(api, tmp_path),
        Notifier(systemd.address),
        watchdog_seconds=0.000_001,
        remote=_Broken(address="127.0.0.1", port=0),
    )
    eventually(lambda: "a defect" in caplog.text)
    eventually(lambda: not any(each.name == "remote-readers" for each in threading.enumerate()))
    application.tick()
    assert systemd.heard() == [b"STATUS=ready"]
    application.stop()
