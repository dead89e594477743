"""One request and its answer over a connection that is kept, in as few steps as HTTP/1.1 needs.

A decision is one POST whose answer is a line. urllib3 takes 0.8 ms of processor for that and
http.client half of it, most of it for unread headers; this takes 0.25. urllib3 keeps connections,
TLS and tunnels, and http.client reads an answer whose length isn't in one plain header.
"""

import contextlib
import http
import http.client
import io
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import urllib3
from urllib3.util.ssl_match_hostname import CertificateError

from gpustack.adapters.kube.errors import KubeUnavailable

_RECEIVED_BYTES: Final = 1 << 16
_LONGEST_HEAD: Final = 1 << 16
_ANSWER_BYTES: Final = 48 << 20  # an agent may read two lists at once, within its MemoryMax
_REFUSAL_BYTES: Final = 1 << 16  # of a `Status`, whose message may quote an object's fields
_SHORTEST_SECONDS: Final = 1e-3  # 0 would mean not to wait at all
_END: Final = b"\r\n\r\n"
_HEAD: Final = re.compile(rb"HTTP/1\.1 ([2-5][0-9][0-9])(?: [^\r\n]*)?\r\n(?:[^\r\n]+\r\n)+\r\n")
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*(?=\r\n)", re.IGNORECASE)
# http.client takes a length that Python makes no number of (4300 digits) for none at all.
_BOUNDLESS: Final = re.compile(rb"\r\ncontent-length:[ \t]*[0-9]{19}", re.IGNORECASE)
# These headers, not the length, say where the answer or the connection ends.
_OTHERWISE: Final = re.compile(rb"\r\n(?:transfer-encoding|connection|[ \t])", re.IGNORECASE)
_WITHOUT_BODY: Final = frozenset({b"204", b"304"})
_TARGET: Final = re.compile(r"[!-~]+")
_VALUE: Final = re.compile(r"[ -~]*")


class ResponseTooLargeError(KubeUnavailable):
    """An answer has more bytes than any that is read to its end."""

    def __init__(self) -> None:
        super().__init__(f"an answer of more than {_ANSWER_BYTES} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResponse:
    """The server's answer."""

    status: int
    data: bytes


def request(
    method: str, target: str, headers: Mapping[str, str], body: bytes | None = None
) -> bytes:
    """Write a request.

    Raises:
        ValueError: the target or a header can't stand in one.
    """
    if not _TARGET.fullmatch(target) or not all(map(_VALUE.fullmatch, headers.values())):
        raise ValueError(f"{method} {target!r}: not ASCII, or with blanks or line ends")
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "\r\n"]).encode("ascii") + (body or b"")


def exchange(
    pool: urllib3.HTTPConnectionPool,
    method: str,
    data: bytes,
    *,
    connect_seconds: float,
    seconds: float,
) -> ApiResponse:
    """Send a request and return the answer.

    Args:
        pool: the server's connections.
        method: the request's.
        data: all of it.
        connect_seconds: the longest wait for a connection.
        seconds: the longest wait for everything.

    Raises:
        ResponseTooLargeError: the body is longer than any of the API server's.
        urllib3.exceptions.ProtocolError: the connection broke; the request may have been carried
            out.
        urllib3.exceptions.HTTPError: no connection, or no answer in time.
    """
    began = time.monotonic()
    # The pool's own two ways in and out: they find connections that the server has closed.
    connection: Any = pool._get_conn()
    kept = False
    try:
        if connection.sock is None:
            connection.timeout = min(connect_seconds, seconds)
            connection.connect()
        incoming = _Incoming(connection.sock, until=began + seconds)
        connection.sock.sendall(data)
        answer, kept = _read(incoming, method)
        return answer
    except TimeoutError as error:
        text = f"timed out: no answer within {seconds:g} s"
        raise urllib3.exceptions.TimeoutError(text) from error
    except (ssl.SSLError, CertificateError) as error:
        raise urllib3.exceptions.SSLError(error) from error
    except (OSError, http.client.HTTPException) as error:
        raise urllib3.exceptions.ProtocolError("Connection aborted.", error) from error
    finally:
        if not kept:
            connection.close()
        pool._put_conn(connection)


def _read(incoming: "_Incoming", method: str) -> tuple[ApiResponse, bool]:
    """Read an answer; returns it, and whether the connection may be used again."""
    received = incoming.receive()
    while (end := received.find(_END)) < 0 and len(received) < _LONGEST_HEAD:
        received += incoming.receive()
    head = received[: end + len(_END)]
    if _BOUNDLESS.search(head):
        raise http.client.HTTPException("Content-Length: more than any answer has")
    found, lengths = _HEAD.fullmatch(head), _LENGTH.findall(head)
    plain = len(lengths) == 1 and not _OTHERWISE.search(head)
    if found is None or found[1] in _WITHOUT_BODY or not plain:
        return _read_any(incoming, received, method)
    length = int(lengths[0])
    if length > _ANSWER_BYTES:
        raise ResponseTooLargeError
    chunks = [received[len(head) :]]
    missing = length - len(chunks[0])
    while missing > 0:
        chunks.append(incoming.receive())
        missing -= len(chunks[-1])
    # A server that sends more than one answer gets no further request on this connection.
    return ApiResponse(status=int(found[1]), data=b"".join(chunks)[:length]), missing == 0


def _read_any(incoming: "_Incoming", received: bytes, method: str) -> tuple[ApiResponse, bool]:
    """Read an answer of any form, whose beginning has been received."""
    incoming.begun = received
    with http.client.HTTPResponse(incoming, method=method) as response:  # type: ignore[arg-type]
        response.begin()
        _refuse_interim(response)
        try:
            data = response.read(_ANSWER_BYTES + 1)
        except (OverflowError, MemoryError, ValueError) as error:
            # Room is made before anything has come, for a chunk of less than nothing, too.
            raise http.client.HTTPException("a chunk's size: none that an answer has") from error
        if len(data) > _ANSWER_BYTES:
            raise ResponseTooLargeError
        if response.length:  # http.client raises by itself only where it reads everything
            raise http.client.IncompleteRead(data, response.length)
        return ApiResponse(status=response.status, data=data), not response.will_close


def _refuse_interim(response: http.client.HTTPResponse | urllib3.BaseHTTPResponse) -> None:
    """Refuse an answer that is yet to come (RFC 9110, 15.2): it would be the next request's.

    http.client waits for it after 100 alone.
    """
    if response.status < http.HTTPStatus.OK:
        raise urllib3.exceptions.ProtocolError(f"an interim answer: {response.status}")


def read_whole(response: urllib3.BaseHTTPResponse, until: float) -> bytes:
    """Return the body of an answer through a proxy, which ends before a time (monotonic seconds).

    Raises:
        ResponseTooLargeError: it is longer than any of the API server's.
        urllib3.exceptions.HTTPError: it has broken off, or not ended in time.
    """
    data = bytearray()
    with contextlib.closing(response):
        _refuse_interim(response)
        while piece := response.read1(_RECEIVED_BYTES):
            data += piece
            if len(data) > _ANSWER_BYTES:
                raise ResponseTooLargeError
            if time.monotonic() > until:
                raise urllib3.exceptions.TimeoutError("timed out: the answer has no end")
    return bytes(data)


def read_beginning(response: urllib3.BaseHTTPResponse, seconds: float) -> bytes:
    """Return what comes of an error's body in this time, which its server may never end."""
    until = time.monotonic() + seconds
    data = response.read1(_REFUSAL_BYTES)
    while len(data) < _REFUSAL_BYTES and time.monotonic() < until:
        if not (more := response.read1(_REFUSAL_BYTES)):
            break
        data += more
    return data


class _Incoming(io.RawIOBase):
    """The server's bytes, until time is over; a socket, as far as http.client wants one.

    Attributes:
        begun: the bytes that have been received already.
    """

    def __init__(self, sock: Any, *, until: float) -> None:
        super().__init__()
        self._sock = sock
        self._until = until
        self._again = False
        self.begun = b""
        self._limit()

    def receive(self) -> bytes:
        """Return the bytes that have come, or the first that come.

        Raises:
            OSError: no byte came in time, or the server has closed the connection.
        """
        if not (data := self._next(_RECEIVED_BYTES)):
            raise http.client.RemoteDisconnected("the server has closed the connection")
        return data

    def _next(self, most: int) -> bytes:
        if self._again:  # most answers come at once
            self._limit()
        self._again = True
        data: bytes = self._sock.recv(most)
        return data

    def _limit(self) -> None:
        self._sock.settimeout(max(_SHORTEST_SECONDS, self._until - time.monotonic()))

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return it as a file."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the bytes that are there; with none at the connection's end."""
        data = self.begun or self._next(len(buffer))
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        self.begun = self.begun[count:]
        return count
