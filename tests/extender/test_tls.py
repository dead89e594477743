"""Who is let in, and what the log says of everybody else; the real process on a real port."""

import contextlib
import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509 import oid

from extender.tls import Contexts, TlsError, TlsFiles
from tests.extender import certificates
from tests.extender.bench import node
from tests.extender.process import Process, process
from tests.fakes.kube_api import FakeKubeApi

pytestmark = pytest.mark.long

SCHEDULER = "system:kube-scheduler"
PLACES = 512


class Site:
    """An authority, the extender's certificate, and the scheduler's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = certificates.make(folder, "authority")
        self.scheduler = certificates.make(folder, SCHEDULER, self.authority)
        self.server = self.serve()

    def serve(self, name: str = "server", **options: Any) -> certificates.Pair:
        usage = oid.ExtendedKeyUsageOID.SERVER_AUTH
        return certificates.make(self.folder, name, self.authority, usage=usage, **options)

    @property
    def settings(self) -> dict[str, str]:
        return {
            "certificate": str(self.server.certificate_file),
            "key": str(self.server.key_file),
            "client_ca": str(self.authority.certificate_file),
        }

    @property
    def files(self) -> TlsFiles:
        return TlsFiles(
            client_name=SCHEDULER, **{name: Path(path) for name, path in self.settings.items()}
        )

    def context(self, client: certificates.Pair | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority.certificate_file)
        if client is not None:
            context.load_cert_chain(client.certificate_file, client.key_file)
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
            assert "Traceback" not in running.log


def ask(
    served: Process, context: ssl.SSLContext | None, method: str, path: str, body: object = None
) -> tuple[int, str]:
    """Return status and body, over TLS, or without it where there is no context."""
    connection = (
        http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
        if context is None
        else http.client.HTTPSConnection("127.0.0.1", served.port, timeout=20, context=context)
    )
    with contextlib.closing(connection):
        connection.request(method, path, json.dumps(body).encode())
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def decide(served: Process, context: ssl.SSLContext | None) -> tuple[int, str]:
    """Ask for a decision with a body that is refused, politely, by whoever reads it."""
    return ask(served, context, "POST", "/scheduler/predicates", {"NodeNames": []})


def test_the_schedulers_certificate_may_ask_for_decisions(site: Site, served: Process) -> None:
    status, body = decide(served, site.context(site.scheduler))
    assert status == 400
    assert "Pod" in body


def test_another_client_of_the_authority_may_read_but_not_decide(
    site: Site, served: Process
) -> None:
    context = site.context(certificates.make(site.folder, "prometheus", site.authority))
    assert ask(served, context, "GET", "/metrics")[0] == 200
    status, body = decide(served, context)
    assert status == 403
    assert "'prometheus'" in body
    assert SCHEDULER in body
    served.says("the client's certificate names 'prometheus'")


def test_this_host_may_read_without_tls_but_not_decide(served: Process) -> None:
    assert ask(served, None, "GET", "/healthz") == (200, "ok\n")
    status, body = decide(served, None)
    assert status == 403
    assert "https" in body


def bad_clients(site: Site, folder: Path) -> dict[str, certificates.Pair | None]:
    made: dict[str, certificates.Pair | None] = {"none": None, "server's": site.server}
    for name, days, signer in (
        ("expired", (-2, -1), site.authority),
        ("future", (1, 2), site.authority),
        ("stranger", (-1, 1), certificates.make(folder, "stranger")),
        ("self-signed", (-1, 1), None),
    ):
        (folder / name).mkdir()
        made[name] = certificates.make(
            folder / name, SCHEDULER, signer, from_days=days[0], days=days[1]
        )
    return made


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ("none", "the client shows no certificate"),
        ("expired", "certificate has expired"),
        ("future", "certificate is not yet valid"),
        ("stranger", "unable to get local issuer certificate"),
        ("self-signed", "self-signed certificate"),
        ("server's", "unsuitable certificate purpose"),
    ],
)
def test_a_bad_client_is_refused_by_name_and_harms_nobody(
    site: Site, served: Process, tmp_path: Path, client: str, words: str
) -> None:
    shown = bad_clients(site, tmp_path)[client]
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
        decide(served, site.context(shown))
    served.says(words)
    assert decide(served, site.context(site.scheduler))[0] == 400
    assert "gpustack_extender_connections_refused_total{" in ask(served, None, "GET", "/metrics")[1]


def test_a_client_that_refuses_our_certificate_is_named(served: Process) -> None:
    with pytest.raises(ssl.SSLError):
        decide(served, ssl.create_default_context())
    served.says("the client refuses our certificate or TLS version: unknown ca")


def test_what_is_no_handshake_is_refused(served: Process) -> None:
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
        assert decide(served, site.context(site.scheduler))[0] == 400
        served.says("too many connections at the same time")
        assert slow[0].recv(4096).startswith(b"HTTP/1.1 503 ")
        slow[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
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
    old = http.client.HTTPSConnection("127.0.0.1", served.port, timeout=20, context=context)
    new = http.client.HTTPSConnection("127.0.0.1", served.port, timeout=20, context=context)
    with contextlib.closing(old), contextlib.closing(new):
        before = shown(old)
        site.server = site.serve()
        assert shown(old) == before
        assert shown(new) != before
    served.says("certificates read again")


def test_certificates_that_do_not_match_keep_the_last_good_ones_in_force(
    site: Site, served: Process
) -> None:
    key = site.server.key_file.read_bytes()
    site.server.key_file.write_bytes(site.scheduler.key_file.read_bytes())
    assert decide(served, site.context(site.scheduler))[0] == 400
    served.says("certificates can't be used, keeping the ones before: tls.certificate and tls.key")
    site.server.key_file.write_bytes(key)
    assert decide(served, site.context(site.scheduler))[0] == 400


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
def test_files_that_can_not_be_used_are_named(
    tmp_path: Path, setting: str, content: bytes | None, words: str
) -> None:
    files = Site(tmp_path).files
    path: Path = getattr(files, setting)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TlsError) as refused:
        Contexts(files)
    assert str(refused.value).startswith(words)
    assert str(path) in str(refused.value)
