"""What is to be sent on a connection, and has not gone yet, because its client does not read."""

import collections
import socket
import ssl
from typing import Any

from gpustack.adapters.web.tls_socket import TlsSocket


class ResponseBuffer:
    """Stands for a socket while an answer is written on it: no thread waits for the client.

    Everything else than sending is the socket's own.
    """

    def __init__(self, sock: socket.socket | TlsSocket) -> None:
        self._sock = sock
        self._pieces: collections.deque[memoryview] = collections.deque()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    @property
    def kept_bytes(self) -> int:
        """How much memory is occupied by what has not gone."""
        unsent = self._sock.unsent_bytes if isinstance(self._sock, TlsSocket) else 0
        return unsent + sum(map(len, self._pieces))

    def sendall(self, data: bytes) -> None:
        """Take what is to be sent; ``flush`` sends it."""
        if data:
            self._pieces.append(memoryview(data))

    def flush(self) -> bool:
        """Send what the client takes now; True when all has gone.

        Raises:
            OSError: the client is gone.
        """
        try:
            while self._pieces:
                sent = self._sock.send(self._pieces[0])
                if rest := self._pieces[0][sent:]:
                    self._pieces[0] = rest
                else:
                    self._pieces.popleft()
            if isinstance(self._sock, TlsSocket):
                self._sock.flush()
        except (BlockingIOError, ssl.SSLWantWriteError):
            return False
        return True
