"""How the serving process ends, and is replaced where it dies."""

import contextlib
import json
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.extender.client import WAIT_SECONDS, eventually
from tests.extender.mini_cluster import node, pod
from tests.extender.process import process
from tests.extender.test_slow import alive, post, read_all
from tests.fakes.kube_api import FakeKubeApi


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    with FakeKubeApi() as api, process(api, tmp_path) as running:
        begun = running.said.count("Booting worker")
        os.kill(running.worker, signal.SIGKILL)
        eventually(lambda: running.said.count("Booting worker") > begun, lambda: running.said)
        assert alive(running)


def test_what_has_begun_is_finished_and_systemd_hears_how_we_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        FakeKubeApi() as api,
        contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as channel,
    ):
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(0.1)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "600000")
        heard: list[bytes] = []

        def hears(wanted: bytes) -> bool:
            with contextlib.suppress(TimeoutError):
                heard.append(channel.recv(4096))
            return any(wanted in message for message in heard)

        api.create("nodes", node("gpu1"))
        with process(api, tmp_path) as running:
            eventually(lambda: hears(b"STATUS=ready"), lambda: str(heard))
            held = api.faults.hold("PATCH", "/pods/p/status$")
            body = {"Pod": api.create("pods", pod("p", 50, 32)), "NodeNames": ["gpu1"]}
            with running.connect() as connection:
                connection.sendall(post(json.dumps(body).encode()))
                assert held.reached.wait(WAIT_SECONDS)
                eventually(lambda: hears(b"WATCHDOG=1"), lambda: str(heard))
                running.signal(signal.SIGTERM)
                running.says("Handling signal: term")
                held.release()
                assert b'"NodeNames":["gpu1"]' in read_all(connection)
            assert running.ended() == 0
        eventually(lambda: hears(b"STOPPING=1"), lambda: str(heard))
    # Not gunicorn's own word, which comes before there is a worker.
    assert heard[0].startswith(b"READY=1\nSTATUS=answering")
