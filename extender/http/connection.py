"""One client's connection, between the worker's loop and its threads."""

import selectors
import socket
import ssl
import time
from typing import Any, Final

from gunicorn import http
from gunicorn.workers import gthread

from extender.http import fast_path, tls
from extender.http.request_buffer import RequestBuffer
from extender.http.response_buffer import ResponseBuffer
from extender.settings import ExtenderSettings, is_loopback

LARGE_BYTES: Final = 1 << 20
"""A connection that keeps more than this is among those that are closed when memory is short."""

_RECEIVED_BYTES: Final = 1 << 16
_HANDSHAKE: Final = b"\x16"  # first byte of a TLS record that begins a handshake (RFC 8446, 5.1)
# Who closes at once would tear the answer away from a client that still sends (RFC 9112, 9.6).
_LEAVE_SECONDS: Final = 2.0


class RequestRefused(Exception):
    """The connection ends; ``cause`` is a word from a fixed list."""

    def __init__(self, cause: str, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.cause = cause
        self.status = status


class ClientConnection(gthread.TConn):  # type: ignore[misc]  # gunicorn has no types
    """A client's connection; in turn the loop's, while a request arrives, and a thread's.

    Attributes:
        greeted: whoever it is has been let in, with or without TLS.
        decided: it has asked for a decision and may, or has shown the scheduler's certificate; the
            last to be closed for want of places.
        closed: it is no more.
        outgoing: the answer, as far as the client has not taken it.
        since: when it began to wait for what it waits for, by the monotonic clock.
    """

    sock: socket.socket

    def __init__(
        self, cfg: Any, sock: socket.socket, client: Any, server: Any, settings: ExtenderSettings
    ) -> None:
        super().__init__(cfg, sock, client, server)
        self._settings = settings
        self.greeted = False
        self._may_decide = settings.tls is None
        self.decided = False
        self.closed = False
        self.since = 0.0
        self.arrival = RequestBuffer(self._body_limit_bytes)
        self.outgoing = ResponseBuffer(sock)
        # Gunicorn asks it what else it has read; of a call that is answered directly, nothing.
        self.parser = http.get_parser(cfg, (), client)

    def greet(self, contexts: tls.TlsContexts | None) -> int:
        """Shake hands, as far as it goes without waiting; returns what to wait for, 0 when done.

        Under TLS, this host may still ask without it: the application lets it read, not decide.

        Raises:
            Refused: the client isn't let in.
            OSError: it is gone, or has not begun.
        """
        if contexts is not None and not isinstance(self.sock, ssl.SSLSocket):
            first = self.sock.recv(1, socket.MSG_PEEK)
            if first == _HANDSHAKE:
                self.sock = contexts.current().wrap_socket(
                    self.sock, server_side=True, do_handshake_on_connect=False
                )
            elif first and not is_loopback(self.sock.getsockname()[0]):
                raise RequestRefused("not_tls", "this address speaks TLS only: ask https", 400)
        if isinstance(self.sock, ssl.SSLSocket):
            try:
                self.sock.do_handshake()
            except ssl.SSLWantReadError:
                return selectors.EVENT_READ
            except ssl.SSLWantWriteError:
                return selectors.EVENT_WRITE
            except OSError as error:
                raise RequestRefused(*tls.explain(error)) from error
            settled = self._settings.tls
            name = tls.common_name(self.sock)
            self._may_decide = settled is not None and name == settled.client_name
            self.decided = self._may_decide
        self.outgoing = ResponseBuffer(self.sock)
        self.greeted = True
        return 0

    @property
    def shakes_hands(self) -> bool:
        """What has come is of a handshake.

        Raises:
            OSError: it is gone, or has not begun.
        """
        return self.greeting or self.sock.recv(1, socket.MSG_PEEK) == _HANDSHAKE

    @property
    def greeting(self) -> bool:
        """A handshake has begun, and isn't done."""
        return isinstance(self.sock, ssl.SSLSocket) and not self.greeted

    @property
    def deciding(self) -> bool:
        """The request that arrives asks for a decision, and may."""
        return self._may_decide and fast_path.asks_for_decision(self.arrival.head)

    @property
    def too_large(self) -> bool:
        """The request that arrives has a larger body than anybody may send."""
        return self.arrival.length_bytes > self._settings.request_limit_bytes

    def wait(self, seconds: float) -> None:
        """Wait for something from now on, and no longer than this."""
        self.since = time.monotonic()
        self.timeout = self.since + seconds

    def receive(self) -> None:
        """Take what has come, or what comes first within the socket's timeout.

        Raises:
            OSError: the client has closed the connection, or nothing has come.
        """
        if not (data := self.sock.recv(_RECEIVED_BYTES)):
            raise OSError("closed by the client")
        self.arrival.take(data)

    def next_arrival(self) -> RequestBuffer:
        """Return the request that has arrived, and begin with the next."""
        arrived = self.arrival
        self.arrival = RequestBuffer(self._body_limit_bytes, arrived.rest)
        return arrived

    @property
    def more(self) -> bool:
        """Something of the next request has been taken off the socket already."""
        pending = self.sock.pending() if isinstance(self.sock, ssl.SSLSocket) else 0
        return bool(self.arrival.begun or pending)

    def leave(self) -> None:
        """Say nothing more; what the client still sends is thrown away until it goes.

        Raises:
            OSError: it is gone.
        """
        self.sock.setblocking(False)
        self.sock.shutdown(socket.SHUT_WR)
        self.wait(_LEAVE_SECONDS)

    def drained(self) -> bool:
        """Throw away what has come; True when nothing more can come."""
        try:
            return not self.sock.recv(_RECEIVED_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Close it at once; gunicorn's graceful way waits for the client (``leave`` doesn't)."""
        self.closed = True
        super().close()

    def _body_limit_bytes(self, head: bytes) -> int:
        """Return how large a body is kept: nobody reads one but the verbs."""
        decides = self._may_decide and fast_path.asks_for_decision(head)
        return self._settings.request_limit_bytes if decides else 0
