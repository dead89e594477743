"""The places for connections, while threads have requests that they don't get to answer."""

import contextlib
import queue
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from extender.http import loop
from extender.http.connection import ClientConnection
from extender.http.interface import HttpSettings
from tests.extender.client import WAIT_SECONDS
from tests.extender.http.test_connection_turns import CLUSTER
from tests.extender.http.test_slow import post

PLACES = 16
SETTINGS = HttpSettings(
    host="127.0.0.1",
    port=0,
    allowed_hosts=(),
    tls=None,
    request_limit_bytes=1 << 20,
    request_seconds=WAIT_SECONDS * 2,
    threads=1,
    log_level="INFO",
)


class Threads:
    """Never answers; tells of each request whether it asks for a decision, or is refused."""

    def __init__(self) -> None:
        self.alive = True
        self.told: queue.Queue[str] = queue.Queue()
        self._taken: list[ClientConnection] = []

    def submit(self, conn: ClientConnection) -> Future[bool]:
        conn.decided = conn.decided or conn.deciding
        self._taken.append(conn)
        self.told.put("decision" if conn.deciding else "other")
        return Future()

    def shutdown(self) -> None:
        for each in self._taken:
            each.close()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, Threads]]:
    """A listener with few places, and what its loop has answered."""
    monkeypatch.setattr(loop, "CONNECTIONS", PLACES)
    monkeypatch.setattr(loop, "STOP_SECONDS", 0)
    threads = Threads()
    listener = socket.create_server(("127.0.0.1", 0))
    made = loop.ConnectionLoop(
        SETTINGS,
        None,
        threads,  # type: ignore[arg-type]
        on_tick=lambda: None,
        on_refused=threads.told.put,
    )
    running = threading.Thread(target=made.run, args=[listener])
    running.start()
    try:
        yield listener, threads
    finally:
        made.stop()
        running.join(WAIT_SECONDS)
        made._events.close()


def test_requests_that_wait_for_threads_leave_places(
    served: tuple[socket.socket, Threads],
) -> None:
    """Such a connection can't make room, and one that has sent ahead takes its place again."""
    listener, threads = served
    address = listener.getsockname()
    with contextlib.ExitStack() as stack:
        for _ in range(PLACES):
            other = stack.enter_context(socket.create_connection(address))
            other.sendall(CLUSTER)
            assert threads.told.get(timeout=WAIT_SECONDS) in {"other", "connections"}
        scheduler = stack.enter_context(socket.create_connection(address))
        scheduler.sendall(post(b"{}"))
        assert threads.told.get(timeout=WAIT_SECONDS) == "decision"
