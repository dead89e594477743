"""The end of the serving process, and its replacement after a crash."""

import contextlib
import json
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.extender.client import WAIT_SECONDS, eventually
from tests.extender.http.test_connection_turns import GET
from tests.extender.http.test_slow import post, read_all, read_one
from tests.extender.mini_cluster import node, pod
from tests.extender.process import process
from tests.fakes.kube_api import FakeKubeApi


def test_begun_requests_are_finished_and_systemd_gets_the_status(
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
    # Not gunicorn's own message, which it sends before its worker runs.
    assert heard[0].startswith(b"READY=1\nSTATUS=answering")


@pytest.mark.long
def test_a_process_that_is_told_twice_to_end_ends_without_an_error(tmp_path: Path) -> None:
    """By systemd and by the arbiter, the second time while a connection keeps the process."""
    with FakeKubeApi() as api, process(api, tmp_path) as running:
        worker = running.worker
        with running.connect() as connection, connection.makefile("rb") as answers:
            connection.sendall(GET)
            assert read_one(answers) == 200
            os.kill(worker, signal.SIGTERM)
            # The answer comes after the signal: the loop reads the signal first.
            connection.sendall(GET)
            assert b"Connection: close" in answers.read()
            os.kill(worker, signal.SIGTERM)
            running.says("Worker exiting")
        assert "Traceback" not in running.said
