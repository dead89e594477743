"""Accepted clients, and log messages about refused ones; the real process on a real port."""

import contextlib
import datetime
import http.client
import json
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpustack.adapters.web.tls import TlsContexts, TlsError, TlsFiles
from tests.extender.client import WAIT_SECONDS, Answer, call
from tests.extender.mini_cluster import PREDICATES, node
from tests.extender.process import Process, process
from tests.fakes.kube_api import FakeKubeApi
from tests.testbed.host_files import certificates

pytestmark = pytest.mark.long

SCHEDULER = "system:kube-scheduler"
PLACES = 512
DAY = datetime.timedelta(days=1)
EXPIRED = certificates.Validity(begins=-2 * DAY, ends=-DAY)
FUTURE = certificates.Validity(begins=DAY, ends=2 * DAY)


class Site:
    """An authority, the extender's certificate, and the scheduler's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = certificates.authority("authority")
        self.root = self.authority.pair.store(folder, "authority")
        self.scheduler = self.authority.client(SCHEDULER)
        self.serve()

    def serve(self) -> None:
        """Give the extender another certificate, in place of the one before."""
        self.server = self.authority.server("server", ("127.0.0.1",))
        self.served = self.server.store(self.folder, "server")

    @property
    def settings(self) -> dict[str, str]:
        return {
            "certificate": str(self.served.certificate),
            "key": str(self.served.key),
            "client_ca": str(self.root.certificate),
        }

    @property
    def files(self) -> TlsFiles:
        return TlsFiles(
            certificate=self.served.certificate,
            key=self.served.key,
            client_ca=self.root.certificate,
            client_name=SCHEDULER,
        )

    def context(self, client: certificates.Pair | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.root.certificate)
        if client is not None:
            stored = client.store(self.folder, "client")
            context.load_cert_chain(stored.certificate, stored.key)
        return context


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def served(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One process for this module: bad clients must not harm it."""
    with FakeKubeApi() as api:
        api.create("nodes", node("gpu1"))
        with process(api, tmp_path_factory.mktemp("served"), tls=site.settings) as running:
            yield running
            assert "Traceback" not in running.said


def decide(served: Process, context: ssl.SSLContext | None) -> Answer:
    """Ask for a decision with a body that the verb refuses with an answer."""
    body = json.dumps({"NodeNames": []}).encode()
    return call(served.port, "POST", PREDICATES, body, context=context)


def test_the_schedulers_certificate_may_ask_for_decisions(site: Site, served: Process) -> None:
    answer = decide(served, site.context(site.scheduler))
    assert answer.status == 400
    assert "Pod" in answer.text


def test_another_client_of_the_authority_may_read_but_not_decide(
    site: Site, served: Process
) -> None:
    context = site.context(site.authority.client("prometheus"))
    assert call(served.port, "GET", "/metrics", context=context).status == 200
    answer = decide(served, context)
    assert answer.status == 403
    assert "'prometheus'" in answer.text
    assert SCHEDULER in answer.text
    served.says("the client's certificate names 'prometheus'")


def test_this_host_may_read_without_tls_but_not_decide(served: Process) -> None:
    assert served.call("GET", "/healthz").raw == b"ok\n"
    answer = decide(served, None)
    assert answer.status == 403
    assert "https" in answer.text


def bad_client(site: Site, kind: str) -> certificates.Pair | None:
    return {
        "none": None,
        "expired": site.authority.client(SCHEDULER, valid=EXPIRED),
        "future": site.authority.client(SCHEDULER, valid=FUTURE),
        "stranger": certificates.authority("stranger").client(SCHEDULER),
        "self-signed": certificates.authority(SCHEDULER).pair,
        "server's": site.server,
    }[kind]


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ("none", "the client shows no certificate"),
        ("expired", "certificate has expired"),
        ("future", "certificate is not yet valid"),
        ("stranger", "has no issuer in client_ca"),
        ("self-signed", "has no issuer in client_ca"),
        ("server's", "unsuitable certificate purpose"),
    ],
)
def test_a_bad_client_is_refused_by_name_and_harms_no_other(
    site: Site, served: Process, client: str, words: str
) -> None:
    shown = bad_client(site, client)
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
        decide(served, site.context(shown))
    served.says(words)
    assert decide(served, site.context(site.scheduler)).status == 400
    assert "gpustack_extender_connections_refused_total{" in served.call("GET", "/metrics").text


def test_a_client_that_refuses_our_certificate_is_named(served: Process) -> None:
    with pytest.raises(ssl.SSLError):
        decide(served, ssl.create_default_context())
    served.says("the client refuses our certificate or TLS version: unknown ca")


def test_bytes_that_are_no_handshake_are_refused(served: Process) -> None:
    with served.connect() as connection:
        connection.sendall(b"\x16garbage that no TLS library would send")
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(4096):
                pass
    served.says("no TLS handshake")


def test_a_client_with_an_old_version_of_tls_is_refused(site: Site, served: Process) -> None:
    context = site.context(site.scheduler)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        decide(served, context)


def test_more_clients_than_places_close_the_slowest_first(site: Site, served: Process) -> None:
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(served.connect()) for _ in range(PLACES + 20)]
        assert decide(served, site.context(site.scheduler)).status == 400
        served.says("too many connections at the same time")
        assert slow[0].recv(4096).startswith(b"HTTP/1.1 503 ")
        slow[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert slow[-1].recv(4096).startswith(b"HTTP/1.1 200 ")


def test_a_renewed_certificate_counts_at_once_and_open_connections_go_on(
    site: Site, served: Process
) -> None:
    def shown(connection: http.client.HTTPSConnection) -> Any:
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"
        found = connection.sock.getpeercert()
        assert found is not None
        return found["serialNumber"]

    context = site.context(site.scheduler)
    old, new = (
        http.client.HTTPSConnection("127.0.0.1", served.port, timeout=WAIT_SECONDS, context=context)
        for _ in range(2)
    )
    with contextlib.closing(old), contextlib.closing(new):
        before = shown(old)
        site.serve()
        assert shown(old) == before
        assert shown(new) != before
    served.says("certificates read again")


def test_certificates_that_do_not_match_keep_the_last_good_ones_in_force(
    site: Site, served: Process
) -> None:
    site.served.key.write_bytes(site.scheduler.key)
    assert decide(served, site.context(site.scheduler)).status == 400
    served.says("certificates can't be used, keeping the ones before: tls.certificate and tls.key")
    site.served.key.write_bytes(site.server.key)
    assert decide(served, site.context(site.scheduler)).status == 400


# A site that copies its key first, and gives it to the daemon then.
def test_a_key_that_becomes_readable_is_read_again(tmp_path: Path) -> None:
    files = Site(tmp_path).files
    contexts = TlsContexts(files)
    before = contexts.current()
    assert contexts.current() is before
    files.key.chmod(0o440)
    assert contexts.current() is not before


@pytest.mark.parametrize(
    ("setting", "content", "words"),
    [
        ("certificate", None, "tls.certificate: "),
        ("key", None, "tls.key: "),
        ("client_ca", None, "tls.client_ca: "),
        ("certificate", b"nonsense", "tls.certificate and tls.key: "),
        ("key", b"nonsense", "tls.certificate and tls.key: "),
        ("client_ca", b"nonsense", "tls.client_ca: "),
    ],
)
def test_unusable_files_are_named(
    tmp_path: Path, setting: str, content: bytes | None, words: str
) -> None:
    files = Site(tmp_path).files
    path: Path = getattr(files, setting)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TlsError) as refused:
        TlsContexts(files)
    assert str(refused.value).startswith(words)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("setting", ["certificate", "key", "client_ca"])
def test_a_fifo_in_place_of_a_file_keeps_no_handshake_waiting(tmp_path: Path, setting: str) -> None:
    files = Site(tmp_path).files
    path: Path = getattr(files, setting)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(TlsError) as refused:
        TlsContexts(files)
    assert str(refused.value) == (
        f"tls.{setting}: {path}: is no regular file; put one in its place"
    )
