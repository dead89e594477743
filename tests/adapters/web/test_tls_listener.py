"""TLS for other machines: bad handshakes, slow ones, many, and certificates that change."""

import contextlib
import dataclasses
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator

import pytest
from cryptography import x509
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpustack.adapters.web.listener import Bounds
from tests import open_files
from tests.adapters.web.clients import connect, drip, read
from tests.adapters.web.reading import TOKEN, Site
from tests.testbed.host_files import certificates
from tests.waiting import wait_until

_DRIPPERS = 1100  # more than the 1024 files that a process has by default
# The beginning of a ClientHello that announces 512 bytes.
_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
_HEAD = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n"


def _connect(site: Site, sent: bytes = b"") -> socket.socket:
    return connect(site.port, sent)


def _shown(site: Site) -> x509.Certificate:
    """Return the certificate that the server shows now."""
    with site.context().wrap_socket(_connect(site), server_hostname="127.0.0.1") as client:
        return x509.load_der_x509_certificate(client.getpeercert(binary_form=True) or b"")


@pytest.fixture
def many_files() -> Iterator[None]:
    """Let this process, which is client and server, open so many connections twice."""
    with open_files.allowed(3 * _DRIPPERS):
        yield


@pytest.mark.usefixtures("many_files")
@pytest.mark.parametrize("sent", [b"", _HELLO])
def test_a_reader_is_answered_among_1100_handshakes_that_stop(site: Site, sent: bytes) -> None:
    with site.serving() as server, contextlib.ExitStack() as stack:
        assert site.ask(TOKEN).status == 200
        threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
        for _ in range(_DRIPPERS):
            stack.enter_context(_connect(site, sent))
        assert site.ask(TOKEN).status == 200
        assert threading.active_count() - threads < 10
        assert len(os.listdir("/proc/self/fd")) - files - _DRIPPERS < 100
        assert server.dropped >= _DRIPPERS - Bounds().connections


@pytest.mark.usefixtures("many_files")
def test_a_reader_is_answered_among_1100_clients_that_shook_hands(site: Site) -> None:
    context = site.context()
    with site.serving(), contextlib.ExitStack() as stack:
        for _ in range(64):  # twice the bound; each costs both sides a handshake
            client = context.wrap_socket(_connect(site), server_hostname="127.0.0.1")
            stack.enter_context(client).sendall(b"GET /metrics HTTP/1.1\r\nHost: loc")
        assert site.ask(TOKEN).status == 200


def test_handshake_and_head_have_so_many_seconds_together(site: Site) -> None:
    with site.serving(bounds=Bounds(head_seconds=0.3)) as server:
        began = time.monotonic()
        clients = [_connect(site), _connect(site, _HELLO)]
        secured = site.context().wrap_socket(_connect(site), server_hostname="127.0.0.1")
        assert [read(client) for client in (*clients, secured)] == [b"", b"", b""]
        assert time.monotonic() - began < 5
        wait_until(lambda: server.dropped == 3)


def test_a_handshake_byte_by_byte_is_cut_off(site: Site) -> None:
    with site.serving(bounds=Bounds(head_seconds=0.3)):
        began = time.monotonic()
        drip(_connect(site), _HELLO + bytes(500))
        assert time.monotonic() - began < 5


def test_a_long_answer_arrives_whole(site: Site) -> None:
    body = os.urandom(3 << 20)
    with site.serving(body=body):
        assert site.ask(TOKEN).body == body


def test_a_reader_that_does_not_read_is_disconnected(site: Site) -> None:
    body = bytes(32 << 20)  # more than the kernel's buffers on both sides
    with site.serving(body=body, bounds=Bounds(send_seconds=0.3)) as server:
        client = site.context().wrap_socket(_connect(site), server_hostname="127.0.0.1")
        client.sendall(_HEAD % TOKEN.encode())
        wait_until(lambda: server.dropped == 1)
        assert len(read(client)) < len(body)


def test_a_renewed_certificate_counts_for_the_next_connection(site: Site) -> None:
    with site.serving():
        before = _shown(site)
        site.renew()
        assert _shown(site) != before
        assert site.ask(TOKEN).status == 200


def test_a_kubelets_renewal_counts_for_the_next_connection(site: Site) -> None:
    """The kubelet has certificate and key in one file, and a link that it sets to the newest."""
    link = site.folder / "kubelet-server-current.pem"

    def renew(name: str) -> None:
        pair = site.authority.server("node", ("127.0.0.1",))
        (site.folder / name).write_bytes(pair.certificate + pair.key)
        (site.folder / "next").symlink_to(name)
        (site.folder / "next").rename(link)

    renew("kubelet-server-1.pem")
    files = dataclasses.replace(site.files(), certificate=link, key=link)
    with site.serving(files=lambda: files):
        before = _shown(site)
        renew("kubelet-server-2.pem")
        assert _shown(site) != before
        assert site.ask(TOKEN).status == 200


def test_a_changed_authority_of_clients_counts_for_the_next_connection(site: Site) -> None:
    other = certificates.authority("other")
    client = other.client("prometheus")
    with site.serving():
        with pytest.raises(ssl.SSLError):
            site.ask(client=client)
        before = site.root.certificate.read_bytes()
        trusted = site.context(client)
        site.root.certificate.write_bytes(before + other.pair.certificate)
        connected = trusted.wrap_socket(_connect(site), server_hostname="127.0.0.1")
        connected.sendall(_HEAD % b"")
        assert b" 200 " in read(connected)


def test_a_certificate_that_comes_late_is_used(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    missing = site.folder / "server.crt"
    missing.unlink()
    with site.serving():
        assert "metrics.certificate: " in caplog.text
        assert read(_connect(site)) == b""
        site.renew()
        assert site.ask(TOKEN).status == 200


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_an_older_tls_than_1_2_is_refused(site: Site, version: ssl.TLSVersion) -> None:
    context = site.context()
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    with site.serving(), pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        context.wrap_socket(_connect(site), server_hostname="127.0.0.1")


def test_a_request_without_tls_reads_nothing(site: Site) -> None:
    with site.serving():
        assert b"up 1" not in read(_connect(site, _HEAD % TOKEN.encode()))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(noise=st.one_of(st.binary(max_size=300), st.binary(max_size=300).map(_HELLO.__add__)))
def test_no_bytes_stop_the_server(site: Site, noise: bytes) -> None:
    with site.serving():
        client = _connect(site)
        with client, contextlib.suppress(ConnectionError):
            client.sendall(noise)
        assert site.ask(TOKEN).status == 200
