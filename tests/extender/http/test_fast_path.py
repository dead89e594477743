"""The fast path reads the scheduler's head without gunicorn's parser, and as the parser does."""

import email.message
import http.client
import io
import re

import pytest
from gunicorn import http as gunicorn_http
from gunicorn.config import Config
from gunicorn.http.errors import ParseException
from hypothesis import given
from hypothesis import strategies as st

from extender.http.fast_path import FastPath, response
from gpustack.wire.host_header import AllowedHosts

# A head as Go's client writes it, for kube-scheduler 1.34.
GO = (
    b"POST /scheduler/filter HTTP/1.1\r\n"
    b"Host: 127.0.0.1:8888\r\n"
    b"User-Agent: Go-http-client/1.1\r\n"
    b"Content-Length: 14012\r\n"
    b"Content-Type: application/json\r\n"
    b"Accept-Encoding: gzip\r\n"
    b"\r\n"
)


OURS = AllowedHosts(["gpu.example"])
path_of = FastPath(OURS).path_of


def test_the_head_of_a_go_client_is_read() -> None:
    assert path_of(GO) == "/scheduler/filter"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b"POST", b"GET", id="another method"),
        pytest.param(b"POST", b"post", id="no method at all"),
        pytest.param(b"HTTP/1.1", b"HTTP/1.0", id="a connection that ends"),
        pytest.param(b"/scheduler/filter", b"/scheduler/filter?x=1", id="a query"),
        pytest.param(b"/scheduler/filter", b"/scheduler/../v1", id="dots"),
        pytest.param(b"/scheduler/filter", b"/v1/cluster", id="another path"),
        pytest.param(b"Accept-Encoding: gzip", b"Connection: close", id="an end of the connection"),
        pytest.param(b"Accept-Encoding: gzip", b"Transfer-Encoding: chunked", id="chunks"),
        pytest.param(b"Accept-Encoding: gzip", b"Expect: 100-continue", id="a question before"),
        pytest.param(b"Accept-Encoding: gzip", b"Content-Length: 1", id="two lengths"),
        pytest.param(b"Accept-Encoding: gzip", b"host: y", id="two hosts"),
        pytest.param(b"Content-Length: 14012", b"Content-Length: +1", id="no number"),
        pytest.param(b"Content-Length: 14012\r\n", b"", id="no length"),
        pytest.param(b"Content-Length: 14012", b"Content-Length : 14012", id="a blank in a name"),
        pytest.param(b"Host: 127.0.0.1:8888\r\n", b"", id="no host"),
        pytest.param(b"127.0.0.1:8888", b"evil.example:8888", id="another's host"),
        pytest.param(b"application/json", b"text/plain", id="no JSON"),
        pytest.param(b"Content-Type: application/json\r\n", b"", id="no type"),
        pytest.param(b"Accept-Encoding: gzip", b"Origin: http://localhost", id="a web page"),
        pytest.param(b"gzip", b"gzip\r\n folded: more", id="a folded line"),
        pytest.param(b"gzip", b"gzip\x00", id="a zero byte"),
        pytest.param(b"gzip\r\n", b"gzip\n", id="a lone line feed"),
    ],
)
def test_any_other_head_is_left_to_the_parser(old: bytes, new: bytes) -> None:
    assert old in GO
    assert path_of(GO.replace(old, new)) is None


USUAL = (b"user-agent:", b"Accept: */*", b"Accept-Encoding: a")
TYPES = (
    b"CONTENT-TYPE: application/json",
    b"Content-Type: Application/JSON; charset=utf-8",
    b"Content-Type: application/json-patch+json",
)
HOSTS = (b"Host: localhost", b"HOST:gpu.example:1", b"Host: [::1]", b"Host: x", b"Host: a b")
LENGTHS = (
    b"Content-Length: 7",
    b"content-length:8",
    b"Content-Length:\t9 ",
    b"Content-Length: 1, 1",
)
UNUSUAL = (
    b"Connection: close",
    b"Transfer-Encoding: identity",
    b"Expect: 100-continue",
    b"Content-Length: 7",
    b"Host: y",
    b"X: y",
    b"Accept: \xe4",
    b" folded",
)


@st.composite
def heads(draw: st.DrawFn) -> bytes:
    """Draw a head that is nearly always almost one of the fast path."""
    first = draw(st.sampled_from([b"POST /scheduler/bind", b"POST //scheduler/bind", b"PUT /x"]))
    lines = draw(st.lists(st.sampled_from(USUAL), max_size=3))
    lines.append(draw(st.sampled_from(LENGTHS)))
    lines += draw(st.lists(st.sampled_from(UNUSUAL), max_size=1))
    end = draw(st.sampled_from([b"\r\n", b"\r\n", b"\n", b"\r"]))
    lines += draw(st.lists(st.sampled_from(HOSTS), min_size=0, max_size=2))
    lines += draw(st.lists(st.sampled_from(TYPES), min_size=0, max_size=2))
    lines = [first + b" HTTP/1.1", *draw(st.permutations(lines))]
    return b"\r\n".join(lines) + end + b"\r\n"


@given(heads())
def test_the_fast_path_reads_a_head_as_gunicorn_does(head: bytes) -> None:
    path = path_of(head)
    if path is None:
        return
    try:
        request = next(gunicorn_http.get_parser(Config(), [head], ("127.0.0.1", 1)))
    except ParseException as error:
        pytest.fail(f"{head!r} is no request: {error}")
    lengths = [value for name, value in request.headers if name == "CONTENT-LENGTH"]
    hosts = [value for name, value in request.headers if name == "HOST"]
    media = [value for name, value in request.headers if name == "CONTENT-TYPE"]
    assert OURS.refusal(hosts) is None
    assert [value.partition(";")[0].strip().lower() for value in media] == ["application/json"]
    assert (request.method, request.path, request.query) == ("POST", path, "")
    assert len(lengths) == 1
    assert not request.should_close()
    assert not {"TRANSFER-ENCODING", "EXPECT"} & {name for name, _ in request.headers}


class _Sent(io.BytesIO):
    def makefile(self, _mode: str) -> io.BytesIO:
        return self


@pytest.mark.parametrize(("status", "kept"), [(200, True), (400, True), (503, False)])
def test_a_client_reads_the_answer_of_the_fast_path(status: int, kept: bool) -> None:
    read = http.client.HTTPResponse(_Sent(response(status, b'{"Error":""}', kept=kept)))  # type: ignore[arg-type]
    read.begin()
    assert (read.status, read.will_close) == (status, not kept)
    assert read.headers["Content-Type"] == "application/json"
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", str(read.headers["Date"]))
    assert isinstance(read.headers, email.message.Message)
    assert read.read() == b'{"Error":""}'
