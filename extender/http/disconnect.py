"""Whether the one who asks still waits for the answer: what nobody hears of must not be written.

kube-scheduler gives up after its `httpTimeout` without a word but the closed connection.
"""

import contextvars
import select
import socket
from typing import Final

_CLOSED: Final = select.POLLRDHUP | select.POLLHUP | select.POLLERR | select.POLLNVAL
_connection: contextvars.ContextVar[socket.socket | None] = contextvars.ContextVar(
    "connection", default=None
)


def is_on(connection: socket.socket | None) -> None:
    """Name the connection of the request that this thread answers; None for no request."""
    _connection.set(connection)


def is_gone() -> bool:
    """Tell whether the request's sender has closed its connection."""
    connection = _connection.get()
    return connection is not None and is_closed(connection)


def is_closed(connection: socket.socket) -> bool:
    """Tell whether the other side sends nothing more, whatever still lies in between."""
    poll = select.poll()
    poll.register(connection, _CLOSED)
    return bool(poll.poll(0))
