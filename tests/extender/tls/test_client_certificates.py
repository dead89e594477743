"""Certificates that any client may send: decoding one may cost a second."""

import contextlib
import itertools
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from gpustack.adapters.web.client_certificates import ClientMessages
from gpustack.adapters.web.tls import TlsContexts, TlsFiles
from gpustack.adapters.web.tls_socket import TlsSocket
from tests.extender.tls import hostile_certificates
from tests.extender.tls.certificate_holders import (
    CLIENT,
    KEYS,
    LOWER,
    ROOT,
    UPPER,
    Holder,
    Key,
    issue,
    root,
)
from tests.testbed.host_files import certificates

MOST: Final = 8
UNKNOWN_ISSUER: Final = "has no issuer in client_ca"
PLAIN: Final = LOWER.sign("client", authority=False)  # no authority, and says so
# Of processor time, for a message; each of these certificates alone may cost OpenSSL more.
COST_SECONDS: Final = 0.1


def message(*encoded: bytes, kind: int = 11) -> bytes:
    """Return the message of a handshake that shows these certificates."""
    listed = b"".join(len(each).to_bytes(3) + each for each in encoded)
    return bytes([kind]) + (len(listed) + 3).to_bytes(3) + len(listed).to_bytes(3) + listed


def show(*shown: Holder | bytes, authorities: Sequence[Holder] = (ROOT,)) -> None:
    """Show certificates to a server with these authorities."""
    encoded = [each.der if isinstance(each, Holder) else each for each in shown]
    ClientMessages([each.certificate for each in authorities]).take(message(*encoded))


@pytest.mark.parametrize("kind", KEYS)
def test_clients_of_our_authority_are_decoded(kind: str) -> None:
    authority = root(kind)
    show(authority.sign("client", kind), authorities=[ROOT, authority])


@pytest.mark.parametrize("shown", [*itertools.permutations([CLIENT, LOWER, UPPER, ROOT])])
def test_a_chain_is_decoded_in_any_order(shown: tuple[Holder, ...]) -> None:
    show(*shown)
    show(*(each for each in shown if each is not ROOT))


def test_intermediates_may_lie_in_the_file_of_authorities() -> None:
    show(CLIENT, authorities=[LOWER, UPPER, ROOT])


def test_a_client_that_the_file_names_is_decoded() -> None:
    alone = issue("client", KEYS["P-256"](), None)
    show(alone, authorities=[alone])


def test_a_root_that_was_renewed_is_decoded() -> None:
    show(ROOT.sign("client"), issue("authority", ROOT.key, None, authority=True))


def test_a_root_of_the_file_needs_no_signature() -> None:
    """OpenSSL verifies none there; an older root has one of SHA-1, which can't be verified."""
    sha256, sha1 = (bytes.fromhex(f"2a864886f70d0101{end}") for end in ("0b", "05"))
    signed = root("RSA")
    old = Holder(x509.load_der_x509_certificate(signed.der.replace(sha256, sha1)), signed.key)
    show(old.sign("client"), old, authorities=[old])


@pytest.mark.parametrize(
    "shown",
    [
        [root().sign("client")],  # an authority of the same name
        [issue("stranger", KEYS["P-256"](), None)],
        [CLIENT],
        [CLIENT, LOWER],
        [CLIENT, LOWER, UPPER, issue("stranger", KEYS["P-256"](), None)],
        [CLIENT.sign("client"), CLIENT, LOWER, UPPER],
        [CLIENT.sign("client", authority=True), CLIENT, LOWER, UPPER],
        [PLAIN.sign("client"), PLAIN, LOWER, UPPER],
    ],
    ids=[
        "same name",
        "stranger",
        "no chain",
        "cut",
        "beside",
        "client's",
        "client as authority",
        "no authority",
    ],
)
def test_what_our_authorities_did_not_sign_is_refused(shown: list[Holder]) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=UNKNOWN_ISSUER):
        show(*shown)


@pytest.mark.parametrize("form", hostile_certificates.FORMS)
@pytest.mark.parametrize("beside", [[], [CLIENT, LOWER, UPPER]], ids=["alone", "beside ours"])
def test_a_hostile_certificate_costs_little(form: str, beside: list[Holder]) -> None:
    """Its issuer's name is ours, where the form leaves it one: its signature is looked at."""
    hostile = hostile_certificates.FORMS[form]()
    began = time.thread_time()
    with pytest.raises(ssl.SSLError, match=UNKNOWN_ISSUER):
        show(hostile, *beside)
    assert time.thread_time() - began < COST_SECONDS


# a serial number that is negative, of which later versions make an error
@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
def test_a_certificate_with_a_changed_bit_is_refused() -> None:
    signed = CLIENT.certificate.tbs_certificate_bytes
    begin = CLIENT.der.index(signed)
    for place, bit in itertools.product(range(begin, begin + len(signed)), range(8)):
        changed = bytearray(CLIENT.der)
        changed[place] ^= 1 << bit
        with pytest.raises(ssl.SSLError, match=f"{UNKNOWN_ISSUER}|no X[.]509"):
            show(bytes(changed), LOWER, UPPER)


@pytest.mark.parametrize(
    "encoded",
    [
        b"\x30\x80" + CLIENT.der[4:] + b"\0\0",  # BER: an end that is marked
        CLIENT.der + b"\0",
        CLIENT.der[:40],
        b"",
        os.urandom(15_000),
        CLIENT.der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07"),  # version 8
    ],
    ids=["BER", "trailing", "cut off", "empty", "random", "version"],
)
@pytest.mark.parametrize("before", [[], [UPPER]], ids=["first", "second"])
def test_bytes_that_are_no_certificate_are_refused(encoded: bytes, before: list[Holder]) -> None:
    with pytest.raises(ssl.SSLError, match=r"is no X\.509 in DER"):
        show(*before, encoded)


def test_many_certificates_are_refused() -> None:
    show(*[UPPER] * MOST)
    with pytest.raises(ssl.SSLError, match="more than 8 certificates"):
        show(*[UPPER] * (MOST + 1))


@pytest.mark.parametrize("kind", [1, 11])
def test_a_long_message_is_refused_at_its_head(kind: int) -> None:
    with pytest.raises(ssl.SSLError, match="more than 16384 bytes"):
        ClientMessages([]).take(bytes([kind]) + (1 << 14).to_bytes(3))


def test_a_certificate_in_pieces_is_looked_at_as_a_whole() -> None:
    messages = ClientMessages([ROOT.certificate])
    *pieces, last = message(b"hello", kind=1) + message(CLIENT.der)
    for each in pieces:
        messages.take(bytes([each]))
    with pytest.raises(ssl.SSLError, match=UNKNOWN_ISSUER):
        messages.take(bytes([last]))


def test_a_renewed_authority_counts_for_the_next_connection(tmp_path: Path) -> None:
    site = Site(tmp_path, KEYS["P-256"]())
    contexts = TlsContexts(site.files)
    before = contexts.current().authorities
    assert site.files.client_ca is not None
    site.files.client_ca.write_bytes(ROOT.pem + UPPER.pem)
    assert contexts.current().authorities == (ROOT.certificate, UPPER.certificate) != before


class Site:
    """A server that lets one client in, whatever kind of key that has."""

    def __init__(self, folder: Path, key: Key) -> None:
        authority = certificates.authority("authority")
        served = authority.server("server", ("127.0.0.1",)).store(folder, "server")
        plain = serialization.NoEncryption()
        client = certificates.Pair(
            certificate=issue("client", key, None).pem,
            key=key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain
            ),
        ).store(folder, "client")
        self.files = TlsFiles(
            certificate=served.certificate,
            key=served.key,
            client_ca=client.certificate,
            client_name="client",
        )
        self.server = self.files.context()
        trusted = authority.pair.store(folder, "authority")
        self.client = ssl.create_default_context(cafile=trusted.certificate)
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
        while wait([ours], 0):  # as the loop is told
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
