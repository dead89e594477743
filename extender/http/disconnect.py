"""Whether the caller still waits for its answer: a decision whose caller has gone is not written.

kube-scheduler gives up after its `httpTimeout` without a word but the closed connection.
"""

import select
import socket
from typing import Final

from gpustack.adapters.web.tls_socket import TlsSocket

_CLOSED: Final = select.POLLRDHUP | select.POLLHUP | select.POLLERR | select.POLLNVAL


def is_closed(connection: socket.socket | TlsSocket | None) -> bool:
    """Tell whether the caller has closed its connection, whatever of its request is unread.

    A call without a connection, as in tests, has a caller that waits.
    """
    if connection is None:
        return False
    poll = select.poll()
    poll.register(connection, _CLOSED)
    return bool(poll.poll(0))
