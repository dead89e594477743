"""Places for connections and room for large requests, while threads answer none of them."""

import contextlib
import dataclasses
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from extender.http import loop
from extender.http.connection import LARGE_BYTES, ClientConnection
from extender.http.interface import HttpSettings, Reply
from extender.http.request_threads import RequestThreads
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


def test_large_requests_that_wait_for_a_thread_are_bounded_together(
    served: tuple[socket.socket, Threads],
) -> None:
    """Each takes nearly as much as one request may."""
    listener, threads = served
    large = post(b"x" * (SETTINGS.request_limit_bytes - 1000))
    with contextlib.ExitStack() as stack:
        for told in ("decision", "decision", "memory"):
            client = stack.enter_context(socket.create_connection(listener.getsockname()))
            client.sendall(large)
            assert threads.told.get(timeout=WAIT_SECONDS) == told
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 503 ")
        small = stack.enter_context(socket.create_connection(listener.getsockname()))
        small.sendall(post(b"{}"))
        assert threads.told.get(timeout=WAIT_SECONDS) == "decision"


class Calls:
    """Answers a call when it is told to; ``begun`` gets the length of each one's body."""

    paths = frozenset({"/scheduler/predicates"})

    def __init__(self) -> None:
        self.begun: queue.Queue[int] = queue.Queue()
        self.go_on = threading.Event()

    def answer(self, _path: str, body: bytes, *, disconnected: Callable[[], bool]) -> Reply:
        self.begun.put(len(body))
        assert self.go_on.wait(WAIT_SECONDS)
        assert not disconnected()
        return Reply(b"{}")


def test_one_large_request_is_answered_at_a_time() -> None:
    calls = Calls()
    threads = RequestThreads(
        dataclasses.replace(SETTINGS, threads=4), calls, lambda _conn, _arrived: False
    )
    with contextlib.ExitStack() as stack:
        stack.callback(threads.shutdown)
        stack.callback(calls.go_on.set)
        answers = []
        for length in (LARGE_BYTES, LARGE_BYTES, 2):
            client, sock = socket.socketpair()
            stack.enter_context(client)
            conn = ClientConnection(stack.enter_context(sock), None, SETTINGS, None)
            conn.request.take(post(b"x" * length))
            answers.append(threads.submit(conn))
        assert {calls.begun.get(timeout=WAIT_SECONDS) for _ in range(2)} == {LARGE_BYTES, 2}
        assert calls.begun.empty()
        calls.go_on.set()
        assert [answer.result(WAIT_SECONDS) for answer in answers] == [True] * 3
