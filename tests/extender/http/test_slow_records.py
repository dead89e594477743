"""A TLS record that comes byte by byte costs a socket, as every slow request does."""

import contextlib
import socket
import ssl
import time
from multiprocessing.connection import wait
from pathlib import Path

import pytest

from tests.extender.client import WAIT_SECONDS
from tests.extender.http.test_connection_turns import secured
from tests.extender.http.test_slow import post
from tests.extender.process import process
from tests.fakes.kube_api import FakeKubeApi

pytestmark = pytest.mark.long

PACE_SECONDS = 0.005  # a thread that has answered waits ten times as long for the next call


class Records:
    """A client of TLS that hands out its records, and sends none by itself."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
                break
            plain.sendall(self._outgoing.read())
            self._incoming.write(plain.recv(65536))

    def of(self, data: bytes) -> bytes:
        """Encrypt."""
        self._tls.write(data)
        return self._outgoing.read()

    def answer(self) -> bytes:
        """Receive one record."""
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                return self._tls.read()
            self._incoming.write(self._plain.recv(65536))


def test_a_record_that_comes_in_bytes_holds_no_thread(tmp_path: Path) -> None:
    """The client has been answered, so that the only thread waits a moment for its next call."""
    values, context = secured(tmp_path)
    with (
        FakeKubeApi() as api,
        process(api, tmp_path, threads=1, **values) as served,
        served.connect() as plain,
        served.connect() as other,
    ):
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        scheduler, slow = Records(other, context), Records(plain, context)
        plain.sendall(slow.of(post(b"{}")))
        assert slow.answer().startswith(b"HTTP/1.1 400")
        other.sendall(scheduler.of(post(b"{}")))
        deadline = time.monotonic() + WAIT_SECONDS / 4
        for byte in slow.of(post(b"x" * 16_000)):
            plain.sendall(bytes((byte,)))
            assert time.monotonic() < deadline
            if wait([other], PACE_SECONDS):
                break
        assert scheduler.answer().startswith(b"HTTP/1.1 400")
