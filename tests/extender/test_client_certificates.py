"""Certificates that any client may send: decoding one may cost a third of a second."""

import contextlib
import datetime
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from extender.http.client_certificates import ClientMessages
from extender.http.tls import TlsFiles
from extender.http.tls_socket import TlsSocket
from tests.testbed import certificates

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

KEYS: Final[dict[str, Callable[[], Key]]] = {
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}
P256: Final = bytes.fromhex("06082a8648ce3d030107")
P192: Final = bytes.fromhex("06082a8648ce3d030101")
MOST: Final = 8
REFUSED_KEY: Final = "the key of a certificate of the client"


def self_signed(key: Key) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "client")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1)
    builder = builder.not_valid_before(now + certificates.LASTING.begins)
    builder = builder.not_valid_after(now + certificates.LASTING.ends)
    return builder.sign(
        key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    )


def der(key: Key | None = None) -> bytes:
    return self_signed(key or KEYS["P-256"]()).public_bytes(serialization.Encoding.DER)


def message(*encoded: bytes, kind: int = 11) -> bytes:
    """Return the message of a handshake that shows these certificates."""
    listed = b"".join(len(each).to_bytes(3) + each for each in encoded)
    return bytes([kind]) + (len(listed) + 3).to_bytes(3) + len(listed).to_bytes(3) + listed


@pytest.mark.parametrize("kind", KEYS)
def test_certificates_of_usual_keys_are_decoded(kind: str) -> None:
    ClientMessages().take(message(*[der(KEYS[kind]())] * MOST))


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        (der().replace(P256, P192), REFUSED_KEY),
        (b"\x30\x80" + der()[4:] + b"\0\0", "no X.509"),  # BER: an end that is marked
        (der()[:40], "no X.509"),
        (b"", "no X.509"),
        (b"\x30\x04\x30\x02\xa0\x00", "no X.509"),
    ],
    ids=["unusual key", "BER", "cut off", "empty", "no fields"],
)
@pytest.mark.parametrize("before", [0, 1])
def test_other_certificates_are_refused(encoded: bytes, reason: str, before: int) -> None:
    with pytest.raises(ssl.SSLError, match=reason):
        ClientMessages().take(message(*[der()] * before, encoded))


def test_many_certificates_are_refused() -> None:
    with pytest.raises(ssl.SSLError, match="more than 8 certificates"):
        ClientMessages().take(message(*[der()] * (MOST + 1)))


@pytest.mark.parametrize("kind", [1, 11])
def test_a_long_message_is_refused_at_its_head(kind: int) -> None:
    with pytest.raises(ssl.SSLError, match="more than 16384 bytes"):
        ClientMessages().take(bytes([kind]) + (1 << 14).to_bytes(3))


def test_a_certificate_in_pieces_is_looked_at_as_a_whole() -> None:
    messages = ClientMessages()
    *pieces, last = message(b"hello", kind=1) + message(der().replace(P256, P192))
    for each in pieces:
        messages.take(bytes([each]))
    with pytest.raises(ssl.SSLError, match=REFUSED_KEY):
        messages.take(bytes([last]))


class Site:
    """A server that lets one client in, whatever kind of key that has."""

    def __init__(self, folder: Path, key: Key) -> None:
        root = certificates.authority("authority")
        served = root.server("server", ("127.0.0.1",)).store(folder, "server")
        pem = serialization.Encoding.PEM
        plain = serialization.NoEncryption()
        client = certificates.Pair(
            certificate=self_signed(key).public_bytes(pem),
            key=key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain),
        ).store(folder, "client")
        self.server = TlsFiles(
            certificate=served.certificate,
            key=served.key,
            client_ca=client.certificate,
            client_name="client",
        ).context()
        authority = root.pair.store(folder, "authority")
        self.client = ssl.create_default_context(cafile=authority.certificate)
        self.client.load_cert_chain(client.certificate, client.key)

    @contextlib.contextmanager
    def connect(self, session: ssl.SSLSession | None = None) -> Iterator[tuple["Peer", TlsSocket]]:
        """Shake hands."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.setblocking(False)
            peer, server = Peer(theirs, self.client, session), TlsSocket(ours, self.server)
            for _ in range(3):
                peer.step(peer.tls.do_handshake)
                with contextlib.suppress(ssl.SSLWantReadError):
                    server.do_handshake()
            yield peer, server


class Peer:
    """A client that is driven step by step."""

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, session: ssl.SSLSession | None
    ) -> None:
        self.sock = sock
        self._into, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(
            self._into, self._out, server_hostname="127.0.0.1", session=session
        )

    def step(
        self, call: Callable[[], object], wrapped: Callable[[bytes], bytes] = lambda sent: sent
    ) -> None:
        """Take what has come, do something, and send what comes of it."""
        with contextlib.suppress(BlockingIOError):
            self._into.write(self.sock.recv(1 << 16))
        with contextlib.suppress(ssl.SSLWantReadError):
            call()
        self.sock.sendall(wrapped(self._out.read()))


@pytest.mark.parametrize("kind", KEYS)
def test_a_client_of_a_usual_key_is_let_in(tmp_path: Path, kind: str) -> None:
    with Site(tmp_path, KEYS[kind]()).connect() as (_, server):
        assert server.getpeercert()["subject"] == ((("commonName", "client"),),)


def in_records(stream: bytes, count: int) -> bytes:
    """Return the same messages in so many records: the first one is cut."""
    head, size = stream[:3], int.from_bytes(stream[3:5])
    body, rest = stream[5 : 5 + size], stream[5 + size :]
    others, left = 0, rest
    while left:
        others, left = others + 1, left[5 + int.from_bytes(left[3:5]) :]
    cut = count - others - 1
    pieces = [*(body[each : each + 1] for each in range(cut)), body[cut:]]
    return b"".join(head + len(each).to_bytes(2) + each for each in pieces) + rest


@pytest.mark.parametrize("count", range(5, 40))
def test_a_handshake_in_any_number_of_records_ends(tmp_path: Path, count: int) -> None:
    """A client that waits for the server's last word sends nothing that would wake the server."""
    ours, theirs = socket.socketpair()
    site = Site(tmp_path, KEYS["P-256"]())
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        peer, server = Peer(theirs, site.client, None), TlsSocket(ours, site.server)
        peer.step(peer.tls.do_handshake)
        with pytest.raises(ssl.SSLWantReadError):
            server.do_handshake()
        peer.step(peer.tls.do_handshake, lambda sent: in_records(sent, count))
        while select.select([ours], [], [], 0)[0]:  # as the loop is told
            with contextlib.suppress(ssl.SSLWantReadError):
                server.do_handshake()
        assert server.getpeercert()["subject"] == ((("commonName", "client"),),)


def test_a_session_ends_with_its_connection(tmp_path: Path) -> None:
    """A resumed one does not look at the dates of the client's certificate again.

    The library keeps sessions of connections that it has said goodbye on (close_notify).
    """
    site = Site(tmp_path, KEYS["P-256"]())
    with site.connect() as (peer, server):
        session = peer.tls.session
        peer.step(peer.tls.unwrap)
        assert server.recv(1) == b""
    del peer, server
    with site.connect(session) as (peer, server):
        assert server.getpeercert()
        assert not peer.tls.session_reused
