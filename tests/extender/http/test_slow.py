"""Clients that are slow, large, many or gone cost a socket; other clients get their answers."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO, Any

import pytest

from tests.extender.client import WAIT_SECONDS, eventually
from tests.extender.mini_cluster import PREDICATES, node
from tests.extender.process import Process, process
from tests.fakes.kube_api import FakeKubeApi

pytestmark = pytest.mark.long

THREADS = 2
MANY = 30
REQUEST_SECONDS = 1.0
LIMIT = 1 << 20
HEAD = (
    b"POST /scheduler/predicates HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: 1000\r\n"
)
REFUSED_AT_ONCE = (
    (b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000, b"431"),
    (b"nonsense\r\n\r\n", b"400"),
    *((HEAD.replace(b"1000", b"9" * digits) + b"\r\n", b"413") for digits in (30, 1001, 5000)),
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    settings: dict[str, Any] = {
        "threads": THREADS,
        "request_seconds": REQUEST_SECONDS,
        "request_limit_bytes": LIMIT,
    }
    with FakeKubeApi() as api:
        api.create("nodes", node("gpu1"))
        with process(api, tmp_path_factory.mktemp("served"), **settings) as running:
            yield running
            assert "Traceback" not in running.said


def post(body: bytes) -> bytes:
    return HEAD.replace(b"1000", str(len(body)).encode()) + b"\r\n" + body


def alive(served: Process) -> bool:
    return served.call("GET", "/healthz").raw == b"ok\n"


def read_all(connection: socket.socket) -> bytes:
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            got += chunk
    return got


# the first byte, an open head, a verb's head, its body missing, its body begun
BEGINNINGS = (
    b"G",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n",
    HEAD,
    HEAD + b"\r\n",
    HEAD + b"\r\n{",
)


def test_many_slow_clients_delay_no_others_and_are_closed(served: Process) -> None:
    """If each held a thread for a request's time, the answer would come after WAIT_SECONDS."""
    with contextlib.ExitStack() as stack:
        slow = [
            (beginning, stack.enter_context(served.connect()))
            for beginning in (b"", *BEGINNINGS)
            for _ in range(MANY)
        ]
        for beginning, each in slow:
            each.sendall(beginning)
        assert REQUEST_SECONDS * len(slow) / THREADS > WAIT_SECONDS
        assert alive(served)
        assert {read_all(each) for beginning, each in slow if not beginning} == {b""}
        for _, each in slow:
            read_all(each)
    assert alive(served)


def test_a_request_that_does_not_arrive_gets_408(served: Process) -> None:
    """On a kept connection a request's time begins with its first byte, under any load."""
    with contextlib.ExitStack() as stack:
        kept = [(beginning, stack.enter_context(served.connect())) for beginning in BEGINNINGS]
        for beginning, each in kept:
            each.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"ok\n"):
                answer += each.recv(65536)
            each.sendall(beginning)
        told = {beginning: read_all(each).partition(b"\r\n")[0] for beginning, each in kept}
    assert told == dict.fromkeys(BEGINNINGS, b"HTTP/1.1 408 Request Timeout")
    served.says("cause=slow: the request did not arrive within 1 s")


def test_a_client_that_sends_single_bytes_is_closed(served: Process) -> None:
    with served.connect() as slow:
        slow.sendall(HEAD)
        slow.settimeout(0.2)
        deadline = time.monotonic() + WAIT_SECONDS
        ended = False
        while not ended:
            assert time.monotonic() < deadline
            try:
                ended = not slow.recv(65536)
            except TimeoutError:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    slow.sendall(b"x")
            except ConnectionResetError:
                ended = True


def test_a_body_of_100_mb_is_refused_and_names_the_limit(
    served: Process,
) -> None:
    answer = served.call("POST", PREDICATES, b"x" * 100_000_000)
    assert answer.status == 413
    assert f"request_limit_bytes allows {LIMIT}" in answer.body["Error"]
    peak = Path(f"/proc/{served.worker}/status").read_text().partition("VmHWM:")[2].split()[0]
    assert int(peak) < 200_000  # KiB: the body was not kept


def test_many_half_sent_large_bodies_are_bounded_together(served: Process) -> None:
    large = post(b"x" * LIMIT)

    def bounded() -> bool:
        with contextlib.ExitStack() as stack:
            for _ in range(6):
                half = stack.enter_context(served.connect())
                with contextlib.suppress(ConnectionError):  # its time may be over
                    half.sendall(large[:-1])
            last = stack.enter_context(served.connect())
            last.sendall(large)
            assert b"HTTP/1.1 400" in last.recv(65536)
        return "cause=memory: too many large requests at the same time" in served.said

    eventually(bounded)
    assert alive(served)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        *REFUSED_AT_ONCE,
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: no\r\n\r\n", b"400"),
        (HEAD.replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked") + b"\r\n", b"411"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"200"),
    ],
)
def test_bytes_that_are_no_request_are_answered_at_once(
    served: Process, request_bytes: bytes, status: bytes
) -> None:
    with served.connect() as connection:
        connection.sendall(request_bytes)
        assert read_all(connection).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize("digits", [1001, 5000])
def test_a_body_of_any_length_is_never_the_next_request(served: Process, digits: int) -> None:
    head = HEAD.replace(b"1000", b"9" * digits) + b"\r\n"
    with served.connect() as connection:
        connection.sendall(head + b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"Content-Length: the body is too large; request_limit_bytes allows" in answer


def test_a_body_that_no_route_reads_is_not_kept(served: Process) -> None:
    """So many large bodies of a verb at a time are refused for want of memory."""
    before = served.said.count("cause=memory")
    large = post(b"x" * LIMIT).replace(b"POST /scheduler/predicates", b"POST /version")
    with contextlib.ExitStack() as stack:
        half = [stack.enter_context(served.connect()) for _ in range(6)]
        for each in half:
            each.sendall(large[:-1])
        for each in half:
            each.sendall(large[-1:])
            assert read_all(each).startswith(b"HTTP/1.1 405")
    assert served.said.count("cause=memory") == before


def test_requests_that_come_together_are_answered_one_after_another(served: Process) -> None:
    one = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with served.connect() as connection:
        connection.sendall(one + one + last)
        assert read_all(connection).count(b"HTTP/1.1 200 OK") == 3


def read_one(answers: IO[bytes]) -> int:
    """Take one answer off a kept connection; returns its status."""
    status, length = int(answers.readline().split()[1]), 0
    while (line := answers.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    assert len(answers.read(length)) == length
    return status


def test_a_scheduler_asks_on_one_connection_at_any_pace(
    served: Process,
) -> None:
    """A call at once goes to a thread that waits for it, a call after a pause to the loop."""
    call = post(b"{}")
    with served.connect() as connection, connection.makefile("rb") as answers:
        for pause in (0, 0, REQUEST_SECONDS / 4, 0):
            connection.sendall(call[:-1])
            assert not wait([connection], pause)
            connection.sendall(call[-1:] + call)
            assert [read_one(answers), read_one(answers)] == [400, 400]


def test_kept_connections_hold_no_threads(served: Process) -> None:
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(served.connect()) for _ in range(MANY)]
        for _ in range(2):
            for connection in kept:
                connection.sendall(post(b"{}"))
            for connection in kept:
                with connection.makefile("rb") as answers:
                    assert read_one(answers) == 400
            assert alive(served)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        *REFUSED_AT_ONCE,
        (HEAD + b"Expect: 100-continue\r\n\r\n", b"100"),
        (HEAD, b"408"),
    ],
)
def test_a_request_after_a_call_is_treated_as_a_first_one(
    served: Process, head: bytes, status: bytes
) -> None:
    with served.connect() as connection, connection.makefile("rb") as answers:
        connection.sendall(post(b"{}"))
        assert read_one(answers) == 400
        connection.sendall(head)
        assert connection.recv(65536).startswith(b"HTTP/1.1 " + status)


def test_a_client_that_closes_after_an_answer_is_closed(served: Process) -> None:
    with served.connect() as connection, connection.makefile("rb") as answers:
        connection.sendall(post(b"{}"))
        assert read_one(answers) == 400
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""


def test_a_client_that_waits_for_100_continue_gets_it(served: Process) -> None:
    with served.connect() as connection:
        connection.sendall(HEAD + b"Expect: 100-continue\r\nConnection: close\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 100 Continue")
        connection.sendall(b"x" * 1000)
        assert read_all(connection).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "header", [b"SCRIPT_NAME: /other", b"PATH_INFO: /healthz", b"X-Forwarded-Proto: https"]
)
def test_headers_of_a_caller_change_no_path(served: Process, header: bytes) -> None:
    request = (
        b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + header + b"\r\n\r\n"
    )
    with served.connect() as connection:
        connection.sendall(request)
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(served.call("GET", "/version").raw)


def test_a_worker_that_dies_is_replaced(served: Process) -> None:
    begun = served.said.count("Booting worker")
    os.kill(served.worker, signal.SIGKILL)
    eventually(lambda: served.said.count("Booting worker") > begun, lambda: served.said)
    assert alive(served)
