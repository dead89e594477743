"""Clients of a server, good and slow ones."""

import contextlib
import socket
import ssl

from tests.waiting import SECONDS


def connect(port: int, sent: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
    client.sendall(sent)
    return client


def read(client: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    got = b""
    with client, contextlib.suppress(ConnectionResetError, ssl.SSLError):
        while more := client.recv(1 << 16):
            got += more
    return got


def drip(client: socket.socket, data: bytes) -> None:
    """Send byte by byte, until all is sent or the server closes the connection."""
    client.settimeout(0.05)  # so 200 bytes take 10 s where the server waits for all
    with client, contextlib.suppress(ConnectionError):
        for byte in data:
            client.send(bytes([byte]))
            with contextlib.suppress(TimeoutError):
                if client.recv(1) == b"":
                    break
