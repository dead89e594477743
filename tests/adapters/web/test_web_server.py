"""The HTTP server among clients that mean harm: slow ones, many, other sites'."""

import collections
import contextlib
import http
import http.client
import socket
import threading
import time
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpustack.adapters.web.exchange import Response
from gpustack.adapters.web.listener import Bounds, Listener
from gpustack.adapters.web.page_threads import Page
from gpustack.adapters.web.server import WebServer
from tests.adapters.web.clients import connect, drip, read
from tests.waiting import SECONDS, running, wait_until

_HEAD = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"


def _text(body: bytes) -> Page:
    return lambda _: Response(body=body)


def _after(gate: threading.Event) -> Page:
    """Return a page that isn't made before a gate opens."""
    return lambda _: Response(body=str(gate.wait(SECONDS)).encode())


@contextlib.contextmanager
def _serving(
    pages: Mapping[str, Page], *, hosts: tuple[str, ...] = (), bounds: Bounds | None = None
) -> Iterator[WebServer]:
    listener = Listener(address="127.0.0.1", port=0, hosts=hosts, bounds=bounds or Bounds())
    server = WebServer({listener: pages})
    with running(server.run):
        yield server


def _connect(server: WebServer, sent: bytes = b"") -> socket.socket:
    return connect(server.ports[0], sent)


def _status(server: WebServer, request: bytes = _HEAD) -> int:
    return int(read(_connect(server, request)).split(maxsplit=2)[1])


def test_a_client_has_so_long_for_its_head_in_total() -> None:
    with _serving({}, bounds=Bounds(head_seconds=0.3)) as server:
        began = time.monotonic()
        drip(_connect(server), b"GET /version HTTP/1.1\r\nX: " + b"x" * 200)
        assert time.monotonic() - began < 5


def test_a_client_that_does_not_read_is_disconnected() -> None:
    body = b"x" * (64 << 20)  # more than the kernel's buffers on both sides
    with _serving({"/version": _text(body)}, bounds=Bounds(send_seconds=0.3)) as server:
        client = _connect(server, _HEAD)
        wait_until(lambda: server.dropped == 1)
        assert len(read(client)) < len(body)


def test_the_slowest_client_makes_room_for_a_new_one() -> None:
    with _serving({"/version": _text(b"0.1")}, bounds=Bounds(connections=2)) as server:
        oldest, younger = (_connect(server, b"GET /vers") for _ in range(2))
        assert _status(server) == http.HTTPStatus.OK
        assert read(oldest) == b""
        younger.sendall(_HEAD.removeprefix(b"GET /vers"))
        assert b"0.1" in read(younger)


def test_a_client_beyond_the_bound_waits_for_the_next_free_place() -> None:
    gate = threading.Event()
    pages = {"/slow": _after(gate), "/version": _text(b"0.1")}
    with _serving(pages, bounds=Bounds(connections=2, patience_seconds=60)) as server:
        asked = [_connect(server, _HEAD.replace(b"version", b"slow")) for _ in range(2)]
        beyond = _connect(server, _HEAD)
        beyond.settimeout(0.3)
        with pytest.raises(TimeoutError):
            beyond.recv(1)
        gate.set()
        assert b"0.1" in read(beyond)
        assert all(b"True" in read(client) for client in asked)
        assert server.dropped == 0


def test_a_client_of_a_page_that_hangs_makes_room_for_a_new_one() -> None:
    gate = threading.Event()
    pages = {"/slow": _after(gate), "/version": _text(b"0.1")}
    with _serving(pages, bounds=Bounds(connections=2, patience_seconds=0.1)) as server:
        asked = [_connect(server, _HEAD.replace(b"version", b"slow")) for _ in range(2)]
        assert _status(server) == http.HTTPStatus.OK
        gate.set()
        assert read(asked[0]) == b""
        assert b"True" in read(asked[1])


def test_a_page_is_made_once_for_all_types_that_clients_accept() -> None:
    gate = threading.Event()
    made = collections.Counter[str]()

    def slow(_: str) -> Response:
        made["slow"] += 1
        return Response(body=str(gate.wait(SECONDS)).encode())

    def head(number: int) -> bytes:
        asked = b"GET /slow HTTP/1.1\r\nHost: localhost\r\nAccept: text/x-%d, text/plain\r\n\r\n"
        return asked % number

    with _serving({"/slow": slow}, bounds=Bounds(page_seconds=0.3)) as server:
        asked = [_connect(server, head(number)) for number in range(8)]
        assert all(b" 503 " in read(client) for client in asked)
        gate.set()
        assert _status(server, head(8)) == http.HTTPStatus.OK
    assert made["slow"] <= 2  # the last client may have asked after the first page was made


def test_a_page_that_hangs_keeps_no_other_waiting() -> None:
    gate = threading.Event()
    made = collections.Counter[str]()

    def slow(_: str) -> Response:
        made["slow"] += 1
        return Response(body=str(gate.wait(SECONDS)).encode())

    pages = {"/slow": slow, "/version": _text(b"0.1")}
    with _serving(pages, bounds=Bounds(page_seconds=0.3)) as server:
        asked = [_connect(server, _HEAD.replace(b"version", b"slow")) for _ in range(8)]
        assert _status(server) == http.HTTPStatus.OK
        assert all(b" 503 " in read(client) for client in asked)
        gate.set()
    assert made["slow"] == 1


def test_a_page_that_fails_is_an_answer_and_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_: str) -> Response:
        raise RuntimeError("a defect")

    with _serving({"/version": broken}) as server:
        assert _status(server) == http.HTTPStatus.INTERNAL_SERVER_ERROR
    assert "a defect" in caplog.text


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (_HEAD, 200),
        (_HEAD.replace(b"GET", b"HEAD"), 200),
        (_HEAD.replace(b"localhost", b"127.0.0.1:1234"), 200),
        (_HEAD.replace(b"localhost", b"gpu1.example.com"), 200),
        (_HEAD.replace(b" localhost", b"\tlocalhost \t"), 200),
        (_HEAD.replace(b"localhost", b"attacker.example"), 421),
        (_HEAD.replace(b"Host: localhost\r\n", b""), 400),
        (_HEAD.replace(b"1.1\r\nHost: localhost", b"1.0"), 200),
        (_HEAD.replace(b"Host:", b"Host: attacker.example\r\nHost:"), 400),
        (_HEAD.replace(b"/version", b"http://attacker.example/version"), 404),
        (_HEAD.replace(b"/version", b"/nothing"), 404),
        (_HEAD.replace(b"GET", b"POST"), 405),
        (_HEAD.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\nhello"), 413),
        (_HEAD.replace(b"\r\n\r\n", b"\r\nContent-Length: " + b"9" * 1001 + b"\r\n\r\n"), 413),
        (_HEAD.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"), 413),
        (_HEAD.replace(b"\r\n\r\n", b"\r\nX: " + b"x" * 9000), 431),
        (_HEAD.replace(b"\r\n\r\n", b"\r\n" + b"X: x\r\n" * 200 + b"\r\n"), 431),
        (_HEAD.replace(b"HTTP/1.1", b"HTTP/one"), 400),
        (b"\r\n\r\n", 400),
    ],
)
def test_each_request_gets_its_status(request_: bytes, status: int) -> None:
    with _serving({"/version": _text(b"0.1")}, hosts=("gpu1.example.com",)) as server:
        assert _status(server, request_) == status


def test_an_answer_to_head_has_the_length_and_no_body() -> None:
    with _serving({"/version": _text(b"0.1")}) as server:
        asker = http.client.HTTPConnection("127.0.0.1", server.ports[0], timeout=SECONDS)
        asker.request("HEAD", "/version")
        answer = asker.getresponse()
        assert (answer.status, answer.getheader("Content-Length"), answer.read()) == (200, "3", b"")
        asker.close()


@settings(max_examples=25, deadline=None)
@given(
    noise=st.one_of(
        st.binary(max_size=300),
        st.text(max_size=100).map(lambda text: f"GET {text} HTTP/1.1\r\n".encode()),
        st.text(max_size=100).map(lambda text: b"GET / HTTP/1.1\r\nHost: " + text.encode()),
    )
)
def test_no_bytes_stop_the_server(noise: bytes) -> None:
    with _serving({"/version": _text(b"0.1")}) as server:
        with contextlib.suppress(ConnectionError):
            read(_connect(server, noise + b"\r\n\r\n"))
        assert _status(server) == http.HTTPStatus.OK
