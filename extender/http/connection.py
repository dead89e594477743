"""One client's connection, between the loop and the threads that answer."""

import functools
import logging
import math
import select
import selectors
import socket
import ssl
import time
from typing import Any, Final

from extender.http import fast_path
from extender.http.interface import HttpSettings
from extender.http.request_buffer import RequestBuffer
from extender.http.response_buffer import ResponseBuffer
from gpustack.adapters.web import tls
from gpustack.adapters.web.listen_address import is_loopback
from gpustack.adapters.web.tls_socket import TlsSocket
from gpustack.wire.host_header import HttpRefusal

logger = logging.getLogger(__name__)

LARGE_BYTES: Final = 1 << 19
"""Of requests larger than this, one is answered at a time, and few are kept: to decode one may take
forty times its bytes. 10 000 names of nodes are less."""

_RECEIVED_BYTES: Final = 1 << 16
_HANDSHAKE: Final = b"\x16"  # first byte of a TLS record that begins a handshake (RFC 8446, 5.1)


class RequestRefused(Exception):
    """The connection ends; ``cause`` is a word from a fixed list."""

    def __init__(self, cause: str, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.cause = cause
        self.status = status


class ClientConnection:
    """A client's connection; in turn the loop's, while a request arrives, and a thread's.

    Attributes:
        sock: its socket; from the handshake on a ``TlsSocket``.
        client: its other end's address.
        server: our end's address.
        established: the client is let in, with or without TLS.
        decided: it asked for a decision and may, or has shown the scheduler's certificate; closed
            last for want of places.
        request: the request that arrives.
        outgoing: the answer, as far as the client has not taken it.
        hold_seconds: how long the loop holds ``outgoing`` back before it sends it.
        since: when it began to wait for what it waits for, by the monotonic clock.
        until: when it has waited long enough.
    """

    def __init__(
        self,
        sock: socket.socket,
        client: Any,
        settings: HttpSettings,
        contexts: tls.TlsContexts | None,
    ) -> None:
        sock.setblocking(False)
        self.sock: socket.socket | TlsSocket = sock
        self._plain = sock
        self.client = client
        self.server = sock.getsockname()
        self._settings = settings
        self._contexts = contexts
        self.established = False
        self._may_decide = settings.tls is None
        self.decided = False
        self.since = self.until = 0.0
        self.request = self._begin()
        self.outgoing = ResponseBuffer(sock)
        self.hold_seconds = 0.0

    def handshake(self) -> int:
        """Shake hands, as far as it goes without waiting; returns what to wait for, 0 when done.

        Under TLS, this host may still ask without it: the application lets it read, not decide.

        Raises:
            RequestRefused: the client isn't let in.
            OSError: it is gone, or has not begun.
        """
        if self._contexts is not None and self.sock is self._plain:
            first = self._first_byte()
            if first == _HANDSHAKE:
                self.sock = TlsSocket(self._plain, self._contexts.current())
            elif first and not is_loopback(self.server[0]):
                raise RequestRefused("not_tls", "this address speaks TLS only: ask https", 400)
        if isinstance(self.sock, TlsSocket):
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
            self.request = self._begin()
        self.outgoing = ResponseBuffer(self.sock)
        self.established = True
        return 0

    @property
    def shakes_hands(self) -> bool:
        """The next step of this connection is one of a TLS handshake.

        Raises:
            OSError: it is gone, or has not begun.
        """
        secured = self._contexts is not None and not self.established
        return secured and (self.in_handshake or self._first_byte() == _HANDSHAKE)

    def _first_byte(self) -> bytes:
        return self._plain.recv(1, socket.MSG_PEEK)

    @property
    def in_handshake(self) -> bool:
        """A handshake has begun, and isn't done."""
        return isinstance(self.sock, TlsSocket) and not self.established

    @property
    def deciding(self) -> bool:
        """The request that arrives asks for a decision, and may."""
        return self._may_decide and fast_path.asks_for_decision(self.request.head)

    @property
    def large(self) -> bool:
        """The request that arrives takes so much memory that few of them are kept."""
        return self.request.kept_bytes > LARGE_BYTES

    @property
    def too_large(self) -> bool:
        """The request that arrives has a larger body than any that is waited for."""
        return self._may_decide and self.request.length_bytes > self._settings.request_limit_bytes

    def wait(self, seconds: float) -> None:
        """Wait for something from now on, and no longer than this."""
        self.since = time.monotonic()
        self.until = self.since + seconds

    def awaits(self, seconds: float) -> bool:
        """Wait for the client to send, no longer than this; False where it has not."""
        poll = select.poll()
        poll.register(self._plain, select.POLLIN)
        return bool(poll.poll(math.ceil(seconds * 1e3)))

    def receive(self) -> None:
        """Take what has come.

        Raises:
            OSError: the client has closed the connection, or nothing has come.
        """
        if not (data := self.sock.recv(_RECEIVED_BYTES)):
            raise OSError("closed by the client")
        self.request.take(data)

    def check_head(self) -> None:
        """Tell a client that waits for it to go on.

        Raises:
            RequestRefused: the head has no end.
        """
        if self.request.too_long:
            raise RequestRefused("head_too_long", "the request's headers are too long", 431)
        if self.request.continuable and not self.request.complete:
            self.request.continuable = False
            self.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def next_request(self) -> RequestBuffer:
        """Return the request that has arrived, and begin with the next."""
        arrived = self.request
        self.request = self._begin(arrived.rest)
        return arrived

    @property
    def more(self) -> bool:
        """Something of the next request has been taken off the socket already."""
        pending = self.sock.pending() if isinstance(self.sock, TlsSocket) else 0
        return bool(self.request.begun or pending)

    def drained(self) -> bool:
        """Throw away what has come; True when nothing more can come."""
        try:
            return not self.sock.recv(_RECEIVED_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True

    def send_refusal(self, refused: RequestRefused) -> None:
        """Tell the client why its connection ends, as far as possible without waiting."""
        if refused.status and not self.in_handshake:
            try:
                self.sock.send(fast_path.refusal(HttpRefusal(refused.status, str(refused))))
            except OSError as error:
                logger.debug("refusal not taken client=%s error=%s", self.client, error)

    def close(self) -> None:
        """Close it at once."""
        self.sock.close()

    def _begin(self, begun: bytes = b"") -> RequestBuffer:
        # The buffer doesn't refer to the connection: Python frees a circle of references late, and
        # all that a closed connection had received would be kept until then.
        most = self._settings.request_limit_bytes if self._may_decide else None
        return RequestBuffer(functools.partial(_body_limit_bytes, most), begun)


def _body_limit_bytes(most: int | None, head: bytes) -> int | None:
    """Return how large a body is kept: only the verbs read one; None to wait for none."""
    return most if most is None or fast_path.asks_for_decision(head) else 0
