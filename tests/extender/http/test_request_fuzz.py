"""Bytes that are nearly requests: h11 reads every request that the extender answers.

A server that reads a length or a line end otherwise than the proxy before it answers requests that
no client has sent (request smuggling). So each stream is read twice, by the server's own way from
bytes to a request (``RequestBuffer``, then the fast path or gunicorn's parser, then the checks of
the head) and by h11: every request that is answered must be h11's request of the same place.

The extender refuses more than h11: ``STRICTER`` lists each difference and why it is on purpose.
"""

import itertools
import random
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import h11
import pytest
from gunicorn.config import Config
from gunicorn.http.errors import ParseException
from hypothesis import example, given
from hypothesis import strategies as st

from extender.http.fast_path import FastPath
from extender.http.gunicorn_server import is_last, parse
from extender.http.request_buffer import RequestBuffer
from gpustack.wire.host_header import AllowedHosts

OURS = AllowedHosts()
CONFIG = Config()
CONFIG.set("forwarded_allow_ips", "")
LIMIT_BYTES = 1 << 16
INPUTS = 50
"""Streams of one example: 10 000 in `make test` (2 500 in `make check`), 10⁶ in `make nightly`."""

path_of = FastPath(OURS).path_of


class Request(NamedTuple):
    method: str
    target: str
    body: bytes


class Seen(NamedTuple):
    """A request as h11 reads it."""

    request: Request
    version: str
    fields: list[tuple[str, str]]

    def values(self, name: str) -> list[str]:
        return [value for each, value in self.fields if each == name]


def answered(data: bytes, cuts: list[int]) -> tuple[list[Request], bytes]:
    """The requests that the extender answers, and the head after them, as far as it has come."""
    buffer = RequestBuffer(lambda _head: LIMIT_BYTES)
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for start, end in itertools.pairwise(places):
        buffer.take(data[start:end])
    found: list[Request] = []
    while buffer.complete:
        request, last = read(buffer)
        if request is None:
            break
        found.append(request)
        if last:
            break
        buffer = RequestBuffer(lambda _head: LIMIT_BYTES, buffer.rest)
    return found, buffer.head


def read(arrived: RequestBuffer) -> tuple[Request | None, bool]:
    """A complete request, None where it is refused, and whether its connection ends."""
    if (path := path_of(arrived.head)) is not None and not arrived.refused:
        return Request("POST", path, arrived.body), False
    try:
        parsed = parse(CONFIG, arrived, ("127.0.0.1", 1))
    except ParseException:
        return None, True
    named = {name: value for name, value in parsed.headers}
    hosts = [value for name, value in parsed.headers if name == "HOST"]
    foreign = OURS.refusal(hosts, required=parsed.version != (1, 0))
    if arrived.refused or foreign is not None or "TRANSFER-ENCODING" in named:
        return None, True
    last = is_last(parsed, arrived) or parsed.should_close()
    return Request(parsed.method, parsed.uri, arrived.body), last


def reference(data: bytes) -> list[Seen]:
    """The requests that h11 reads."""
    found: list[Seen] = []
    while True:
        # One empty line before a request is nothing (RFC 9112, 2.2); h11 refuses it.
        connection, body = h11.Connection(h11.SERVER), b""
        connection.receive_data(data.removeprefix(b"\r\n"))
        try:
            head = connection.next_event()
            if not isinstance(head, h11.Request):
                return found
            while isinstance(part := connection.next_event(), h11.Data):
                body += part.data
        except h11.RemoteProtocolError:
            return found
        if not isinstance(part, h11.EndOfMessage):
            return found
        request = Request(head.method.decode(), head.target.decode(), body)
        fields = [(name.decode(), value.decode("latin-1")) for name, value in head.headers]
        found.append(Seen(request, head.http_version.decode(), fields))
        connection.send(h11.Response(status_code=404, headers=[("content-length", "0")]))
        connection.send(h11.EndOfMessage())
        if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
            return found
        data = connection.trailing_data[0]


HEADS = (
    b"POST /scheduler/filter HTTP/1.1\r\nHost: 127.0.0.1:8888\r\nUser-Agent: Go-http-client/1.1\r\n"
    b"Content-Length: 4\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n{{}}",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
    b"POST /scheduler/bind HTTP/1.1\r\nhost: [::1]\r\ncontent-type: application/json\r\n"
    b"Content-Length:\t11 \r\nX-Note: a\r\n\r\nhello\r\n\r\nGE",
    b"GET http://localhost/v1/cluster?a=b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"GET /version HTTP/1.0\r\n\r\n",
    b"POST /scheduler/filter HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"4\r\n{{}}\r\n0\r\n\r\n",
    b"POST /x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab",
)
TOKENS = (
    b"\r\n|\n|\r|\r\n\r\n|\n\n|\0| |\t|:|,|\x0b|\x7f|\x85|\xa0|\xb2|\xdf|_|-|+|0|1|9|0x1|#|*|%20|"
    b"GET|get|HTTP/1.0|HTTP/1.1|HTTP/2.0|http/1.1|localhost|evil.example|Host|Upgrade|h2c|Expect|"
    b"Content-Length|Content_Length|Transfer-Encoding|chunked|identity|Connection|close|keep-alive|"
    b"100-continue|\r\nContent-Length: 3|\nContent-Length: 3|\r\nContent-Length : 3|\r\n: x|"
    b"\r\n Content-Length: 3|\r\nContent-Length: 3, 3|\r\nTransfer-Encoding: chunked|\r\n folded|"
    b"\r\n\tfolded: 1|\r\nHost: localhost|\r\nConnection: keep-alive|\r\nConnection: close, x"
).split(b"|")


def streams(seed: int) -> Iterator[tuple[bytes, list[int]]]:
    """Yield streams of one to three requests, changed in up to four places, and cuts of them."""
    drawn = random.Random(seed)  # noqa: S311
    for _ in range(INPUTS):
        data = bytearray(b"".join(drawn.choices(HEADS, k=drawn.randint(1, 3))))
        for _ in range(drawn.randint(0, 4)):
            change(data, drawn)
        cuts = [drawn.randrange(len(data) + 1) for _ in range(drawn.randrange(4))]
        yield bytes(data), cuts


def change(data: bytearray, drawn: random.Random) -> None:
    at = drawn.randrange(len(data) + 1)
    match drawn.randrange(6):
        case 0:
            data[at:at] = drawn.choice(TOKENS)
        case 1:
            data[at : at + drawn.randint(1, 4)] = drawn.choice(TOKENS)
        case 2:
            del data[at : at + drawn.randint(1, 8)]
        case 3:
            data[at : at + 1] = bytes([drawn.randrange(256)])
        case 4:  # at the end of a line
            ends = [found.start() for found in re.finditer(b"\r\n", data)]
            at = drawn.choice(ends) if ends else at
            data[at:at] = drawn.choice(TOKENS)
        case _:  # a part of it again
            again = data[at : at + drawn.randint(1, 60)]
            at = drawn.randrange(len(data) + 1)
            data[at:at] = again


class Stricter(NamedTuple):
    """A request that h11 reads and the extender refuses.

    Attributes:
        reason: why it is refused.
        sample: such a request.
        holds: whether a request is one, by its head's bytes and as h11 has read it.
    """

    reason: str
    sample: bytes
    holds: Callable[[bytes, Seen], object]


GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
POST = GET.replace(b"GET", b"POST")
STRICTER = (
    Stricter(
        "chunks: no scheduler sends them, and a body's limit is judged by its head",
        POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        lambda _, seen: seen.values("transfer-encoding"),
    ),
    Stricter(
        "a line that ends with LF alone: others read on (RFC 9112, 2.2: may)",
        GET.replace(b"\r\n", b"\n") + b"\r\n",
        lambda head, _: re.search(rb"(?<!\r)\n", head),
    ),
    Stricter(
        "a folded line (RFC 9112, 5.2: must be refused or joined)",
        GET + b"X: a\r\n b\r\n\r\n",
        lambda head, _: re.search(rb"\r\n[ \t]", head),
    ),
    Stricter(
        "a host that isn't allowed (wire.host_header)",
        GET.replace(b"localhost", b"evil.example") + b"\r\n",
        lambda _, seen: OURS.refusal(seen.values("host")) is not None,
    ),
    Stricter(
        "a method that no standard has: in small letters, of two or of 21",
        GET.replace(b"GET", b"get") + b"\r\n",
        lambda _, seen: not re.fullmatch(r"[^a-z#]{3,20}", seen.request.method),
    ),
    Stricter(
        "a target that names neither a path nor a URI (RFC 9112, 3.2.3: for CONNECT only)",
        GET.replace(b"/ ", b"localhost:80 ") + b"\r\n",
        lambda _, seen: not re.match(r"/|.*://", seen.request.target),
    ),
    Stricter(
        "a URI whose host is no address",
        GET.replace(b"/ ", b"http://[::1/ ") + b"\r\n",
        lambda _, seen: "://" in seen.request.target and re.search(r"[\[\]]", seen.request.target),
    ),
    Stricter(
        "a version that isn't 1.0 to 1.9",
        GET.replace(b"1.1", b"2.0") + b"\r\n",
        lambda _, seen: not seen.version.startswith("1."),
    ),
    Stricter(
        "a length twice, or as a list: others take the one or the other",
        POST + b"Content-Length: 2, 2\r\n\r\nab",
        lambda head, _: (
            len(re.findall(rb"(?i)\r\ncontent-length:", head)) > 1
            or re.search(rb"(?i)\r\ncontent-length:[^\r]*,", head)
        ),
    ),
    Stricter(
        "a content type twice (RFC 9110, 5.3)",
        GET + b"Content-Type: a\r\nContent-Type: b\r\n\r\n",
        lambda _, seen: len(seen.values("content-type")) > 1,
    ),
    Stricter(
        "an expectation other than 100-continue (RFC 9110, 10.1.1: 417)",
        GET + b"Expect: more\r\n\r\n",
        lambda _, seen: {each.lower() for each in seen.values("expect")} - {"100-continue"},
    ),
    Stricter(
        "a control character in a value (RFC 9110, 5.5)",
        GET + b"X: a\x01b\r\n\r\n",
        lambda _, seen: re.search(r"[^\t -~\x80-\xff]", "".join(map("".join, seen.fields))),
    ),
)


def check(data: bytes, cuts: list[int]) -> None:
    ours, head = answered(data, cuts)
    theirs = reference(data)
    assert ours == [each.request for each in theirs[: len(ours)]], data
    if len(theirs) > len(ours):
        assert any(each.holds(head, theirs[len(ours)]) for each in STRICTER), (data, head)


@pytest.mark.parametrize("each", STRICTER, ids=lambda each: each.reason.partition(":")[0])
def test_each_difference_from_h11_exists(each: Stricter) -> None:
    (seen,) = reference(each.sample)
    ours, head = answered(each.sample, [])
    assert ours == []
    assert [other for other in STRICTER if other.holds(head, seen)] == [each]


@given(st.integers(0, 2**64))
@example(27427958)  # an Expect in the place of the request line
def test_every_answered_request_is_one_that_h11_reads(seed: int) -> None:
    for data, cuts in streams(seed):
        check(data, cuts)
