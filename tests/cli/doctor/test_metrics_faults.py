"""Faults planted in the addresses of metrics: the doctor finds each on the host."""

import datetime
import http.server
import pathlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.cli.doctor.good_host import GoodHost, bad, examine
from tests.testbed.host_files import certificates

Fault = Callable[[GoodHost], object]


@pytest.fixture
def host(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoodHost]:
    with GoodHost(tmp_path, monkeypatch) as found:
        yield found


def of_metrics(names: tuple[str, ...], days_left: float = 365) -> Fault:
    """Give the agent another certificate; it reads its files again."""
    ends, whole = datetime.timedelta(days=days_left), datetime.timedelta(days=365)
    valid = certificates.Validity(begins=ends - whole, ends=ends)
    pair = certificates.authority("other").server("metrics", names, valid=valid)
    return lambda host: pair.store(host.host.root, "metrics")


def of_section(**changed: str) -> Fault:
    def plant(host: GoodHost) -> None:
        host.write_config(metrics=host.agent_config["metrics"] | changed)

    return plant


def other_certificate(host: GoodHost) -> None:
    other = certificates.authority("other").server("metrics", ()).store(host.host.root, "other")
    of_section(certificate=str(other.certificate))(host)


def silent_extender(host: GoodHost) -> None:
    section = host.agent_config["metrics"] | {"listen": "127.0.0.1:1"}
    host.write_extender(metrics=section)


FAULTS: dict[str, tuple[Fault, str, str]] = {
    "no metrics are served": (
        of_section(listen="127.0.0.1:1"), "fail", "does gpustack-agent run?",
    ),
    "the certificate of metrics is missing": (
        of_section(certificate="/nowhere/server.crt"), "fail", "can't be read",
    ),
    "the certificate of metrics has expired": (
        of_metrics(("127.0.0.1",), -1), "fail", "has expired",
    ),
    "the certificate of metrics soon ends": (
        of_metrics(("127.0.0.1",), 5), "warn", "ends in 4d",
    ),
    "the certificate of metrics has another name": (
        of_metrics(("192.0.2.7",)), "warn", "doesn't name 127.0.0.1",
    ),
    "metrics come with another certificate": (
        other_certificate, "fail", "shows another certificate than",
    ),
    "the extender's metrics are not served": (
        silent_extender, "fail", "does gpustack-extender run?",
    ),
    "the extender's configuration is broken": (
        lambda host: host.paths.extender_config.write_text("{"), "fail", "not YAML",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_fault_of_metrics_is_found_by_its_own_check(host: GoodHost, fault: str) -> None:
    plant, level, words = FAULTS[fault]
    plant(host)
    findings, _ = examine(host)
    assert bad(findings) == [("metrics", level)]
    found = [each for each in findings if each.level.value != "ok"]
    assert words in found[0].found, found[0]


def test_metrics_that_are_open_to_all_are_found(host: GoodHost) -> None:
    class Open(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    section = host.agent_config["metrics"]
    context.load_cert_chain(section["certificate"], section["key"])
    with http.server.HTTPServer(("127.0.0.1", 0), Open) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        of_section(listen=f"127.0.0.1:{server.server_port}")(host)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        findings, _ = examine(host)
        server.shutdown()
        thread.join()
    assert bad(findings) == [("metrics", "fail")]
    assert "lets a reader without certificate" in findings[-1].found


def test_a_certificate_names_the_address_that_others_reach(host: GoodHost) -> None:
    _, _, port = host.agent_config["metrics"]["listen"].rpartition(":")
    of_section(listen=f"0.0.0.0:{port}")(host)
    findings, _ = examine(host)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:  # no route: others reach this host by no address of IPv4
            assert bad(findings) == []
            return
        assert f"doesn't name {probe.getsockname()[0]}" in findings[-1].found
    assert bad(findings) == [("metrics", "warn")]


def test_metrics_for_certificates_alone_are_well(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = GoodHost(tmp_path, monkeypatch)
    authority = certificates.authority("clients").pair.store(tmp_path, "clients")
    alone = {"tokens": False, "client_ca": str(authority.certificate)}
    host.host.configuration["metrics"] |= alone
    with host:
        findings, _ = examine(host)
    assert bad(findings) == []
    assert findings[-1].found.endswith("answers, and refuses readers without rights")
