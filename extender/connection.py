"""One client's connection, between the worker's loop and its threads."""

import functools
import socket
import ssl
from typing import Any, Final

from gunicorn import http
from gunicorn.workers import gthread

from extender import tls
from extender.arrival import Arrival

_RECEIVED_BYTES: Final = 1 << 16


class Connection(gthread.TConn):  # type: ignore[misc]  # gunicorn has no types
    """A client's connection; in turn the loop's, while a request arrives, and a thread's."""

    def __init__(
        self, cfg: Any, sock: socket.socket, client: Any, server: Any, body_limit_bytes: int
    ) -> None:
        super().__init__(cfg, sock, client, server)
        self.greeted = False
        self.body_limit_bytes = body_limit_bytes
        self.arrival = Arrival(body_limit_bytes)
        # Gunicorn asks it what else it has read; of a call that is answered directly, nothing.
        self.parser = http.get_parser(cfg, (), client)

    def receive(self) -> None:
        """Take what has come, or what comes first within the socket's timeout.

        Raises:
            OSError: the client has closed the connection, or nothing has come.
        """
        if not (data := self.sock.recv(_RECEIVED_BYTES)):
            raise OSError("closed by the client")
        self.arrival.take(data)

    def next_arrival(self) -> Arrival:
        """Return the request that has arrived, and begin with the next."""
        arrived = self.arrival
        self.arrival = Arrival(self.body_limit_bytes, arrived.rest)
        return arrived

    @functools.cached_property
    def client_name(self) -> str | None:
        """The common name of the client's certificate, once it has greeted (`tls.common_name`)."""
        return tls.common_name(self.sock)

    @property
    def greeting(self) -> bool:
        """A handshake has begun, and isn't done."""
        return isinstance(self.sock, ssl.SSLSocket) and not self.greeted

    @property
    def more(self) -> bool:
        """Something of the next request has been taken off the socket already."""
        pending = self.sock.pending() if isinstance(self.sock, ssl.SSLSocket) else 0
        return bool(self.arrival.begun or pending)


class Refused(Exception):
    """The connection ends; ``cause`` is a word from a fixed list."""

    def __init__(self, cause: str, text: str, status: str = "") -> None:
        super().__init__(text)
        self.cause = cause
        self.status = status
