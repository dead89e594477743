"""Handshakes of TLS, step by step: any client may begin one, without a certificate."""

import asyncio
import contextlib
import fcntl
import socket
import ssl
import struct
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from extender.http.connection import ClientConnection, RequestRefused
from extender.http.handshake_budget import HandshakeBudget
from extender.http.interface import HttpSettings
from gpustack.adapters.web.tls import TlsContexts, TlsFiles
from gpustack.adapters.web.tls_socket import TlsSocket
from tests.extender.http.test_connection_turns import secured
from tests.extender.tls.certificate_holders import issue
from tests.extender.tls.hostile_certificates import FORMS
from tests.extender.tls.test_client_certificates import UNKNOWN_ISSUER, message

STEPS: Final = 8  # of a turn
FRAGMENTS: Final = 4000
# The beginning of a ClientHello that announces 16 000 bytes.
LONG_HELLO: Final = b"\x01\x00\x3e\x80\x03\x03" + bytes(FRAGMENTS - 6)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[socket.socket, ClientConnection]]:
    """A client, and the server's side of its connection."""
    values, _ = secured(tmp_path)
    paths = {name: Path(path) for name, path in values["tls"].items()}
    files = TlsFiles(
        certificate=paths["certificate"],
        key=paths["key"],
        client_ca=paths["client_ca"],
        client_name="system:kube-scheduler",
    )
    settings = HttpSettings(
        host="127.0.0.1",
        port=0,
        allowed_hosts=(),
        tls=files,
        request_limit_bytes=1 << 20,
        request_seconds=30,
        threads=1,
        log_level="INFO",
    )
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
    ):
        sock, address = listener.accept()
        conn = ClientConnection(sock, address, settings, TlsContexts(files))
        yield client, conn
        conn.close()


def unread_bytes(conn: ClientConnection) -> int:
    """Return how many arrived bytes the server has not received."""
    (count,) = struct.unpack("i", fcntl.ioctl(conn.sock.fileno(), termios.FIONREAD, bytes(4)))
    return int(count)


def begun(version: ssl.TLSVersion) -> tuple[ssl.SSLObject, ssl.MemoryBIO, bytes]:
    """Return a client that speaks this version alone, what it will read, and its ClientHello."""
    context = ssl.create_default_context()
    context.minimum_version = context.maximum_version = version
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(into, out, server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return tls, into, out.read()


def test_a_step_of_a_handshake_takes_a_few_records(
    pair: tuple[socket.socket, ClientConnection],
) -> None:
    """A hello in records of a byte each, as RFC 8446 (5.1) allows, held the loop for 200 ms."""
    client, conn = pair
    client.sendall(b"".join(b"\x16\x03\x01\x00\x01" + bytes([each]) for each in LONG_HELLO))
    conn.handshake()
    assert unread_bytes(conn) > FRAGMENTS * 6 * 9 // 10


def test_bytes_that_are_no_record_are_refused_at_once(
    pair: tuple[socket.socket, ClientConnection],
) -> None:
    """The refusal comes before as many bytes as the first ones promise."""
    client, conn = pair
    client.sendall(b"\x16GET / HTTP/1.1")
    with pytest.raises(RequestRefused, match="no TLS handshake"):
        conn.handshake()


def test_a_client_of_tls_1_3_alone_is_refused(
    pair: tuple[socket.socket, ClientConnection],
) -> None:
    """It may ask for the key exchange ffdhe8192, and would encrypt its certificates."""
    client, conn = pair
    client.sendall(begun(ssl.TLSVersion.TLSv1_3)[2])
    with pytest.raises(RequestRefused, match="UNSUPPORTED_PROTOCOL"):
        conn.handshake()


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"\x14\x03\x03\0\0",  # change_cipher_spec without content, which means nothing
        b"\x15\x03\x03\0\x02\x01\x5a",  # a warning
        b"\x16\x03\x03\0\0",
    ],
)
def test_a_certificate_is_refused_before_it_is_decoded(
    pair: tuple[socket.socket, ClientConnection], before: bytes
) -> None:
    client, conn = pair
    tls, into, first = begun(ssl.TLSVersion.TLSv1_2)
    client.sendall(first)
    conn.handshake()
    shown = message(FORMS["a key on a curve of its own"]())
    client.sendall(before + b"\x16\x03\x03" + len(shown).to_bytes(2) + shown)
    with pytest.raises(RequestRefused, match=UNKNOWN_ISSUER) as refused:
        conn.handshake()
    assert refused.value.cause == "unknown_issuer"
    into.write(client.recv(1 << 16))
    with pytest.raises(ssl.SSLError, match="UNKNOWN_CA"):
        tls.do_handshake()


def test_every_connection_gets_its_step_in_a_later_turn() -> None:
    events = asyncio.SelectorEventLoop()
    budget = HandshakeBudget(events)
    try:
        connections = range(3 * STEPS)
        turns = []
        for _ in range(3):
            turns.append({each for each in connections if budget.take(each)})
            events.run_until_complete(asyncio.sleep(0))
        assert [len(turn) for turn in turns] == [STEPS] * 3
        assert set.union(*turns) == set(connections)
    finally:
        events.close()


def test_a_connection_that_has_gone_takes_no_step() -> None:
    events = asyncio.SelectorEventLoop()
    budget = HandshakeBudget(events)
    try:
        for each in range(2 * STEPS):
            budget.take(each)
        for each in range(STEPS, 2 * STEPS):
            budget.forget(each)
        events.run_until_complete(asyncio.sleep(0))
        assert all(budget.take(each) for each in range(STEPS))
    finally:
        events.close()


def test_a_hello_of_ssl_2_brings_no_certificate_to_openssl(tmp_path: Path) -> None:
    """Its record's length stands elsewhere: what follows was taken for a part of it.

    OpenSSL answers it where the host's policy allows SHA-1.
    """
    private = rsa.generate_private_key(65537, 2048)
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    certificate.write_bytes(issue("server", private, None).pem)
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = TlsFiles(certificate=certificate, key=key, client_ca=certificate).context()
    context.openssl.set_ciphers("ALL:@SECLEVEL=0")
    suites = b"".join(b"\0" + each.to_bytes(2) for each in (0xC02F, 0x9C, 0x2F))
    body = b"\x01\x03\x03" + len(suites).to_bytes(2) + b"\0\0\0\x20" + suites + bytes(32)
    hello = (0x8000 | len(body)).to_bytes(2) + body
    client, server = socket.socketpair()
    with client, server:
        server.setblocking(False)
        client.sendall(hello + b"\x16\x03\x03\x10\0" + b"\x0b\0\x0f\xfc" + bytes(1000))
        with pytest.raises(ssl.SSLError, match="SSL 2"):
            TlsSocket(server, context).do_handshake()
