"""One GET with bounds on time and bytes: what answers may be slow, endless or no HTTP at all."""

import contextlib
import http.client
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass

from gpustack.model.errors import GpustackError


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
    connection = (
        http.client.HTTPConnection(host, port)
        if tls is None
        else http.client.HTTPSConnection(host, port, context=tls)
    )
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    ends = time.monotonic() + seconds
    try:
        raw = socket.create_connection((host, connection.port), seconds)
        connection.sock = raw if tls is None else _wrapped(tls, raw, server_name or host)
        with _deadline(connection.sock, ends, seconds):
            if isinstance(connection.sock, ssl.SSLSocket):
                connection.sock.do_handshake()
            connection.request("GET", path)
            with connection.getresponse() as response:
                body = response.read(max_bytes + 1)
            if response.length and len(body) <= max_bytes:
                raise http.client.IncompleteRead(body, response.length)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise HttpGetError(f"{url}: {error or type(error).__name__}") from error
    finally:
        connection.close()
    if len(body) > max_bytes:
        raise HttpGetError(f"{url}: answers with more than {max_bytes} bytes")
    return HttpAnswer(status=response.status, body=body)


def _wrapped(tls: ssl.SSLContext, raw: socket.socket, host: str) -> ssl.SSLSocket:
    try:
        return tls.wrap_socket(raw, server_hostname=host, do_handshake_on_connect=False)
    except (OSError, ValueError):
        raw.close()
        raise


@contextlib.contextmanager
def _deadline(sock: socket.socket, ends: float, seconds: float) -> Iterator[None]:
    """End a connection that trickles: a socket's own time limit begins anew with each byte.

    Raises:
        TimeoutError: it was ended.
    """
    over = threading.Event()

    def end() -> None:
        over.set()
        with contextlib.suppress(OSError):  # it is closed already
            # The base's: that of an SSL socket takes the TLS away from under its reader.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    timer = threading.Timer(max(0.0, ends - time.monotonic()), end)
    timer.daemon = True
    timer.start()
    late = f"no whole answer within {seconds:g} s"
    try:
        yield
    except (OSError, ValueError, http.client.HTTPException) as error:
        if over.is_set() or isinstance(error, TimeoutError):
            raise TimeoutError(late) from error
        raise
    finally:
        timer.cancel()
    if over.is_set():
        raise TimeoutError(late)
