"""One client's connection, between the worker's loop and its threads."""

import socket
import ssl
from typing import Any

from gunicorn.workers import gthread

from extender.arrival import Arrival


class Connection(gthread.TConn):  # type: ignore[misc]  # gunicorn has no types
    """A client's connection; in turn the loop's, while a request arrives, and a thread's."""

    def __init__(
        self, cfg: Any, sock: socket.socket, client: Any, server: Any, body_limit_bytes: int
    ) -> None:
        super().__init__(cfg, sock, client, server)
        self.greeted = False
        self.body_limit_bytes = body_limit_bytes
        self.arrival = Arrival(body_limit_bytes)

    def next_arrival(self) -> Arrival:
        """Return the request that has arrived, and begin with the next."""
        arrived = self.arrival
        self.arrival = Arrival(self.body_limit_bytes, arrived.rest)
        return arrived

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
