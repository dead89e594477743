"""A request and its answer, which a server may give in any form and may break off."""

import contextlib
import http.client
import io
import itertools
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import hypothesis
import pytest
import urllib3
from hypothesis import strategies as st

from gpustack.adapters import kube
from gpustack.adapters.kube.exchange import (
    ApiResponse,
    ResponseTooLargeError,
    exchange,
    request,
)

GET = request("GET", "/", {"host": "there"})


class Server:
    """Answers each request of each connection with the next of some bytes, piece by piece.

    Attributes:
        connections: how many were opened.
        requests: what was asked, whole requests.
    """

    def __init__(self, answers: Sequence[Sequence[bytes]], *, closes: bool) -> None:
        self.connections = 0
        self.requests: list[bytes] = []
        self._answers = iter(answers)
        self._closes = closes
        self._open: socket.socket | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                self._open = connection
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with connection, contextlib.suppress(StopIteration, ConnectionError):
                    self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        while asked := connection.recv(1 << 16):
            self.requests.append(asked)
            for piece in next(self._answers):
                connection.sendall(piece)
            if self._closes:
                return

    def end(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        if self._open is not None:  # a client that keeps it would have us wait for it
            with contextlib.suppress(OSError):
                self._open.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout=5)


@contextlib.contextmanager
def serving(
    *answers: Sequence[bytes], closes: bool = False
) -> Iterator[tuple[Server, urllib3.HTTPConnectionPool]]:
    server = Server(answers, closes=closes)
    pool = urllib3.HTTPConnectionPool("127.0.0.1", server.port)
    try:
        yield server, pool
    finally:
        pool.close()
        server.end()


def ask(pool: urllib3.HTTPConnectionPool, data: bytes = GET, seconds: float = 5) -> ApiResponse:
    return exchange(pool, "GET", data, connect_seconds=5, seconds=seconds)


class _Read:
    def __init__(self, data: bytes) -> None:
        self.makefile = lambda _mode: io.BytesIO(data)


def as_http_client_reads(data: bytes) -> ApiResponse:
    response = http.client.HTTPResponse(_Read(data), method="GET")  # type: ignore[arg-type]
    response.begin()
    return ApiResponse(status=response.status, data=response.read())


BODIES = st.binary(max_size=40)
NAMES = st.sampled_from(["Audit-Id", "Date", "X-Content-Length", "CONNECTION-ID", "Connection"])
VALUES = st.sampled_from(["", "a", "keep-alive", "close", "chunked", "Content-Length: 3", "\t b"])


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Draw an answer in any form that HTTP/1 has."""
    body, status = draw(BODIES), draw(st.sampled_from([200, 201, 204, 304, 404, 500]))
    version = draw(st.sampled_from(["HTTP/1.1", "HTTP/1.1", "HTTP/1.0"]))
    lines = [f"{name}: {draw(VALUES)}" for name in draw(st.lists(NAMES, max_size=3))]
    forms = ["length", "LENGTH", "end"] + ["chunks"] * (status not in (204, 304))
    form = draw(st.sampled_from(forms))
    if form == "chunks" and version == "HTTP/1.1":
        lines.append("Transfer-Encoding: chunked")
        cut = draw(st.integers(0, len(body)))
        parts = [part for part in (body[:cut], body[cut:], b"") if part] + [b""]
        body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    elif form in ("length", "LENGTH"):
        name = "Content-Length" if form == "length" else "CONTENT-LENGTH"
        blank = draw(st.sampled_from(["", " ", "\t "]))
        lines.insert(draw(st.integers(0, len(lines))), f"{name}:{blank}{len(body)}")
    if status in (204, 304):
        body = b""
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" if draw(st.booleans()) else b""
    head = "\r\n".join([f"{version} {status} Said", *lines, "\r\n"])
    return interim + head.encode() + body


@hypothesis.given(answers(), st.lists(st.integers(1, 200), max_size=4))
def test_an_answer_of_any_form_is_read_as_http_client_reads_it(
    data: bytes, cuts: list[int]
) -> None:
    at = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[one:two] for one, two in itertools.pairwise(at)]
    with serving(pieces, closes=True) as (_, pool):
        assert ask(pool) == as_http_client_reads(data)


SAID = {"kind": "Status"}
STATUS = b'HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{"kind": "Status"}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def test_a_connection_is_kept_until_the_server_says_otherwise() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    last = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with serving([OK], [chunked], [last], [OK]) as (server, pool):
        assert [ask(pool).data for _ in range(4)] == [b"ok"] * 4
        assert server.connections == 2


def test_more_than_was_asked_for_ends_the_connection() -> None:
    with serving([OK + b"HTTP/1.1 200 OK\r\n"], [OK]) as (server, pool):
        assert [ask(pool).data for _ in range(2)] == [b"ok"] * 2
        assert server.connections == 2


@pytest.mark.parametrize(
    "broken", [b"", b"HTTP/1.1 2", OK[:-1], b"no\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a" * 70_000]
)
def test_an_answer_that_breaks_off_is_a_protocol_error(broken: bytes) -> None:
    aborted = pytest.raises(urllib3.exceptions.ProtocolError)
    with serving([broken], closes=True) as (_, pool), aborted:
        ask(pool)


def test_an_answer_that_comes_drop_by_drop_has_no_more_time_than_any() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no"
    late = pytest.raises(urllib3.exceptions.TimeoutError, match=r"within 0\.2 s")
    with serving([head]) as (_, pool), late:
        ask(pool, seconds=0.2)


def test_a_request_is_one_piece_with_its_length() -> None:
    with serving([OK]) as (server, pool):
        ask(pool, request("POST", "/a?b=c", {"host": "there", "accept": "x"}, b"body"))
        assert server.requests == [
            b"POST /a?b=c HTTP/1.1\r\nhost: there\r\naccept: x\r\ncontent-length: 4\r\n\r\nbody"
        ]


@pytest.mark.parametrize(
    ("target", "value"), [("/a b", "x"), ("/a\r\n", "x"), ("/é", "x"), ("/a", "x\r\ny: z")]
)
def test_a_blank_or_line_end_in_a_target_or_header_is_refused(target: str, value: str) -> None:
    with pytest.raises(ValueError, match="not ASCII, or with blanks or line ends"):
        request("GET", target, {"authorization": value})


def configured(folder: Path, server: str, **cluster: str) -> kube.KubeClient:
    file = folder / "kubeconfig"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        "users": [{"name": "u", "user": {}}],
    }
    file.write_text(json.dumps(config))  # which is YAML, too
    return kube.KubeClient.from_kubeconfig(file)


def test_a_server_below_a_path_is_asked_there(tmp_path: Path) -> None:
    with serving([STATUS]) as (server, _):
        client = configured(tmp_path, f"http://127.0.0.1:{server.port}/k8s/c1/")
        assert client.get("/api") == SAID
        assert server.requests[0].startswith(b"GET /k8s/c1/api HTTP/1.1\r\n")


def test_a_server_behind_a_proxy_is_asked_through_it(tmp_path: Path) -> None:
    with serving([STATUS]) as (proxy, _):
        through = {"proxy-url": f"http://127.0.0.1:{proxy.port}"}
        client = configured(tmp_path, "http://api.example.org:8080", **through)
        assert client.get("/api", {"limit": "1"}) == SAID
        first = b"GET http://api.example.org:8080/api?limit=1 HTTP/1.1\r\n"
        assert proxy.requests[0].startswith(first)


@pytest.mark.parametrize("digits", [15, 18, 19, 40, 1001, 5000])
@pytest.mark.parametrize(
    "form", ["Content-Length: {}\r\n\r\nok", "Transfer-Encoding: chunked\r\n\r\n{}\r\nok"]
)
def test_an_impossible_length_is_a_broken_connection(form: str, digits: int) -> None:
    answer = ("HTTP/1.1 200 OK\r\n" + form.format("9" * digits)).encode()
    refused = pytest.raises((urllib3.exceptions.HTTPError, ResponseTooLargeError))
    with serving([answer], closes=True) as (_, pool), refused:
        ask(pool)


@pytest.mark.parametrize("size", ["-5", "-", "zz", ""])
def test_a_size_that_is_none_is_a_broken_connection(size: str) -> None:
    answer = f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\nok".encode()
    with serving([answer], closes=True) as (_, pool), pytest.raises(urllib3.exceptions.HTTPError):
        ask(pool)


@pytest.mark.parametrize("status", [101, 102, 103])
@pytest.mark.parametrize("rest", [b"", STATUS])
@pytest.mark.parametrize("proxied", [False, True])
def test_an_answer_that_is_yet_to_come_is_no_other_requests(
    tmp_path: Path, status: int, rest: bytes, proxied: bool
) -> None:
    interim = b"HTTP/1.1 %d Soon\r\n\r\n" % status
    with serving([interim + rest], [STATUS]) as (server, _):
        url = f"http://127.0.0.1:{server.port}"
        through = {"proxy-url": url} if proxied else {}
        client = configured(tmp_path, "http://api.example.org" if proxied else url, **through)
        assert client.get("/api") == SAID  # asked for anew, as of any connection that broke
        assert server.connections == 2


@pytest.mark.parametrize("body", [b"{}", b'{"status": "ok"}'])
def test_an_answer_of_another_service_is_none(tmp_path: Path, body: bytes) -> None:
    """Else a pod would count as bound, and an agent would look for the UID in it."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with serving([answer], [answer]) as (server, _):
        client = configured(tmp_path, f"http://127.0.0.1:{server.port}")
        for call in (client.get, lambda path: client.post(path, {})):
            with pytest.raises(kube.KubeUnavailable, match="the answer is not the API's"):
                call("/api/v1/namespaces/default/pods/p/binding")
