"""Answers that are held back: over real sockets, by one thread, and with few places."""

import contextlib
import dataclasses
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from typing import Any

import pytest

from extender.http import fast_path, loop
from extender.http.connection import ClientConnection
from extender.http.interface import Reply
from extender.http.request_buffer import RequestBuffer
from extender.http.request_threads import RequestThreads
from tests.extender.client import WAIT_SECONDS, eventually
from tests.extender.http.test_connection_turns import GET
from tests.extender.http.test_places import PLACES, SETTINGS
from tests.extender.http.test_slow import post, read_one
from tests.extender.mini_cluster import PREDICATES

EVER = post(b"3600")
SHORT_SECONDS = 0.05


class Calls:
    """Holds each answer for as many seconds as its body says.

    Attributes:
        begun: a call that has begun.
        go: what a call waits for before it is answered.
    """

    paths = frozenset({PREDICATES})

    def __init__(self) -> None:
        self.begun: queue.Queue[bytes] = queue.Queue()
        self.go = threading.Event()
        self.go.set()

    def answer(self, _path: str, body: bytes, *, disconnected: Callable[[], bool]) -> Reply:
        self.begun.put(body)
        self.go.wait(WAIT_SECONDS)
        return Reply(b"{}", hold_seconds=float(body))


@dataclasses.dataclass(slots=True, kw_only=True)
class Served:
    """A loop that runs, and its port."""

    calls: Calls
    made: loop.ConnectionLoop
    running: threading.Thread
    address: tuple[str, int]
    stack: contextlib.ExitStack

    def ask(self, request: bytes) -> socket.socket:
        """Send a request on a connection of its own; returns the connection."""
        connection = socket.create_connection(self.address, timeout=WAIT_SECONDS)
        self.stack.enter_context(connection).sendall(request)
        return connection

    def hold(self) -> socket.socket:
        """Send a request whose answer is held for longer than any test lasts."""
        connection = self.ask(EVER)
        self.calls.begun.get(timeout=WAIT_SECONDS)
        return connection

    def ended(self) -> bool:
        self.running.join(WAIT_SECONDS)
        return not self.running.is_alive()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(loop, "CONNECTIONS", PLACES)
    monkeypatch.setattr(loop, "STOP_SECONDS", 0)
    calls, taken = Calls(), list[ClientConnection]()

    def take(*given: Any) -> ClientConnection:
        taken.append(ClientConnection(*given))
        return taken[-1]

    def other(conn: ClientConnection, _arrived: RequestBuffer) -> bool:
        conn.outgoing.sendall(fast_path.response(200, b"{}", kept=True))
        return True

    monkeypatch.setattr(loop, "ClientConnection", take)
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    threads = RequestThreads(SETTINGS, calls, other)
    made = loop.ConnectionLoop(
        SETTINGS, None, threads, on_tick=lambda: None, on_refused=lambda _cause: None
    )
    running = threading.Thread(target=made.run, args=[listener])
    running.start()
    with contextlib.ExitStack() as stack:
        serves = Served(calls=calls, made=made, running=running, address=address, stack=stack)
        try:
            yield serves
        finally:
            made.stop()
            assert serves.ended()
            for conn in taken:  # as the end of the process does
                conn.close()
            made._events.close()


def status(connection: socket.socket) -> int:
    with connection.makefile("rb") as answers:
        return read_one(answers)


def is_answered(connection: socket.socket) -> bool:
    return bool(wait([connection], 0))


def test_a_held_answer_occupies_no_thread(served: Served) -> None:
    """The only thread answers another call after it."""
    held = served.hold()
    assert status(served.ask(post(b"0"))) == 200
    assert not is_answered(held)


def test_a_held_answer_is_sent_in_time_and_its_connection_kept(served: Served) -> None:
    began = time.monotonic()
    connection = served.ask(post(str(SHORT_SECONDS).encode()) + GET)
    with connection.makefile("rb") as answers:
        assert read_one(answers) == 200
        assert time.monotonic() - began >= SHORT_SECONDS
        assert read_one(answers) == 200
        connection.sendall(post(b"0"))
        assert read_one(answers) == 200


def test_at_most_half_of_the_places_hold_answers(served: Served) -> None:
    """The others' requests are answered, those that ask for no decision among them."""
    held = [served.hold() for _ in range(PLACES // 2)]
    assert status(served.ask(EVER)) == 200
    assert status(served.ask(GET)) == 200
    assert not any(map(is_answered, held))


def test_held_answers_do_not_delay_the_end(served: Served) -> None:
    held = served.hold()
    assert status(served.ask(post(b"0"))) == 200
    served.made.stop()
    assert served.ended()
    assert not is_answered(held)


def test_no_answer_is_held_once_the_process_is_told_to_end(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "STOP_SECONDS", 2 * WAIT_SECONDS)
    served.calls.go.clear()
    begun = served.hold()
    served.made.stop()
    served.calls.go.set()
    assert status(begun) == 200
    begun.close()
    assert served.ended()


def test_a_client_that_goes_while_its_answer_is_held_leaves_its_place(served: Served) -> None:
    gone = served.ask(post(str(SHORT_SECONDS).encode()))
    served.calls.begun.get(timeout=WAIT_SECONDS)
    gone.close()
    eventually(lambda: served.made._count == 0)
