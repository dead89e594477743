"""One GET with bounds on time and bytes: what answers may be slow, endless or no HTTP at all.

The request is one of HTTP/1.0, so an answer has no chunks: its body ends where its length says, or
with the connection. Nothing of it is parsed beyond its status and its length.
"""

import contextlib
import re
import socket
import ssl
import time
import urllib.parse
from dataclasses import dataclass
from typing import Final

from gpustack.model.errors import GpustackError

_HEAD_BYTES: Final = 16 << 10  # our daemons send less than 1 KB
_PIECE_BYTES: Final = 16 << 10  # of a record of TLS, which is read at once (RFC 8446, 5.1)
# Honest servers fill packets. One that sends bytes one by one would cost a processor's time as long
# as it is listened to.
_SMALL_BYTES: Final = 1 << 10
_MOST_SMALL: Final = 1000
_HEAD_END: Final = b"\r\n\r\n"
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})[ \r]")
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)
_CHUNKS: Final = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_SHOWN: Final = 40  # bytes of what is no answer


class HttpGetError(GpustackError):
    """A server gives no usable answer; names the URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """A status and a body."""

    status: int
    body: bytes


def get(
    url: str,
    *,
    seconds: float,
    max_bytes: int,
    tls: ssl.SSLContext | None = None,
    server_name: str = "",
) -> HttpAnswer:
    """Return what a server answers within so many seconds, of any status.

    Args:
        url: `http` or `https`, with a host.
        seconds: for all of it, the body included; the resolver's own time comes on top.
        max_bytes: of the body.
        tls: for `https`, and only for that.
        server_name: what the certificate must name, where that isn't the URL's host.

    Raises:
        HttpGetError: there is none, or it is longer than that.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise HttpGetError(f"{url}: {error}") from error
    if parts.scheme not in {"http", "https"} or not host:
        raise HttpGetError(f"{url}: is no URL of http or https with a host")
    if (parts.scheme == "https") != (tls is not None):
        raise ValueError("https needs a context of TLS, and http takes none")
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    named = parts.netloc.rpartition("@")[2]
    request = f"GET {path} HTTP/1.0\r\nHost: {named}\r\nAccept: */*\r\n\r\n".encode()
    ends = time.monotonic() + seconds
    port = port or (80 if tls is None else 443)
    try:
        with contextlib.ExitStack() as stack:
            sock = stack.enter_context(socket.create_connection((host, port), seconds))
            sock.settimeout(_left(ends))
            if tls is not None:
                sock = tls.wrap_socket(sock, server_hostname=server_name or host)
                stack.enter_context(sock)
                sock.settimeout(_left(ends))
            sock.sendall(request)
            return _received(_Answer(sock, ends), max_bytes)
    except TimeoutError as error:
        raise HttpGetError(f"{url}: no whole answer within {seconds:g} s") from error
    except (OSError, ValueError) as error:
        raise HttpGetError(f"{url}: {error or type(error).__name__}") from error


def _left(ends: float) -> float:
    """Return the seconds that are left; each call of a socket takes so many at most.

    Raises:
        TimeoutError: none.
    """
    left = ends - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _received(answer: "_Answer", max_bytes: int) -> HttpAnswer:
    """Return what comes.

    Raises:
        OSError: the connection is broken, or too slow.
        ValueError: it is no answer, or longer than that.
    """
    head = answer.head()
    status, length = _STATUS.match(head), _LENGTH.search(head)
    if status is None or _CHUNKS.search(head):
        raise ValueError(f"is no answer to HTTP/1.0: {head[:_SHOWN]!r}")
    body = answer.body(None if length is None else int(length[1]), max_bytes)
    return HttpAnswer(status=int(status[1]), body=body)


class _Answer:
    """What comes on a connection until a moment of the monotonic clock."""

    def __init__(self, sock: socket.socket, ends: float) -> None:
        self._sock, self._ends = sock, ends
        self._received = bytearray()
        self._small = 0

    def head(self) -> bytes:
        """Return status and headers, with the empty line after them.

        Raises:
            OSError: the connection is broken, or too slow.
            ValueError: what comes is no HTTP.
        """
        while (end := self._received.find(_HEAD_END)) < 0:
            if len(self._received) > _HEAD_BYTES or not self._more():
                raise ValueError(self._no_http())
        head = bytes(self._received[: end + len(_HEAD_END)])
        del self._received[: len(head)]
        return head

    def body(self, length: int | None, max_bytes: int) -> bytes:
        """Return the body; without a length, all that comes.

        Raises:
            OSError: the connection is broken, or too slow.
            ValueError: it is shorter than its length, or longer than ``max_bytes``.
        """
        wanted = max_bytes + 1 if length is None else length
        while len(self._received) < wanted <= max_bytes + 1 and self._more():
            pass
        if max(len(self._received), length or 0) > max_bytes:
            raise ValueError(f"answers with more than {max_bytes} bytes")
        if length is not None and len(self._received) < length:
            raise ValueError(f"ends after {len(self._received)} of {length} bytes")
        return bytes(self._received[:length])

    def _more(self) -> bool:
        """Wait for more; returns whether something came."""
        self._sock.settimeout(_left(self._ends))
        piece = self._sock.recv(_PIECE_BYTES)
        self._small += len(piece) < _SMALL_BYTES
        if self._small > _MOST_SMALL:
            raise ValueError("answers in too many small pieces")
        self._received += piece
        return bool(piece)

    def _no_http(self) -> str:
        if not self._received:
            return "closed connection without response"
        return f"is no answer of HTTP: {bytes(self._received[:_SHOWN])!r}"
