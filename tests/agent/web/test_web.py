"""The agent's pages for neighbours on the host, with good and with bad intent."""

import contextlib
import http.client
import os
import pathlib
import socket
import threading
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from gpustack.agent import settings
from tests import open_files
from tests.agent.host import Host, card_of

_DRIPPERS = 1100  # more than the 1024 files that a process has by default
_SECONDS = 10.0  # after this long a test counts as hung
_ORIGINAL = {
    "container_gpu_utilization",
    "container_gpu_memory_total",
    "container_request_gpu_utilization",
    "container_request_gpu_memory",
}


def _ask(host: Host, path: str, **headers: str) -> tuple[int, str, str]:
    """Return status, content type and body."""
    asker = http.client.HTTPConnection("127.0.0.1", host.agent.web.ports[0], timeout=_SECONDS)
    with contextlib.closing(asker):
        asker.request("GET", path, headers=headers)
        answer = asker.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()


@pytest.fixture
def many_files() -> Iterator[None]:
    """Let this process, which is client and server, open so many connections twice."""
    with open_files.allowed(3 * _DRIPPERS):
        yield


@pytest.mark.usefixtures("many_files")
def test_a_scrape_is_answered_among_1100_dripping_clients(host: Host) -> None:
    host.start_agent()
    assert _ask(host, "/version")[0] == 200
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    with contextlib.ExitStack() as stack:
        for _ in range(_DRIPPERS):
            client = socket.create_connection(("127.0.0.1", host.agent.web.ports[0]), _SECONDS)
            stack.enter_context(client).sendall(b"GET /version HTTP/1.1\r\nHost: loc")
        status, _, text = _ask(host, "/metrics")
        assert status == 200
        assert threading.active_count() - threads < 10
        assert len(os.listdir("/proc/self/fd")) - files - _DRIPPERS < 100
        assert "gpustack_http_dropped_total 1" in text


@pytest.mark.parametrize("path", ["/usage", "/graph", "/metrics", "/version"])
def test_a_page_of_another_site_reads_nothing(host: Host, path: str) -> None:
    host.start_agent()
    assert _ask(host, path, Host="attacker.example:5678")[0] == 421
    assert _ask(host, path, Host="127.0.0.1:8080")[0] == 200  # through a tunnel


class _Named(Host):
    """A host with an agent that may be called by its name."""

    def settings(self) -> settings.AgentSettings:
        super().settings()
        file = self.root / "agent.yml"
        text = file.read_text()
        assert "http: {port: 0}" in text
        file.write_text(text.replace("port: 0", "port: 0, allowed_hosts: [gpu1.example.com]"))
        return settings.load(file)


def test_a_host_that_the_configuration_allows_is_answered(tmp_path: pathlib.Path) -> None:
    with _Named(tmp_path) as host:
        host.start_agent()
        assert _ask(host, "/usage", Host="gpu1.example.com:5678")[0] == 200
        assert _ask(host, "/usage", Host="gpu2.example.com:5678")[0] == 421


@pytest.mark.parametrize("path", ["/metrics", "/metric"])
def test_openmetrics_is_written_as_its_type_says(host: Host, path: str) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    status, kind, text = _ask(host, path, Accept="application/openmetrics-text; version=1.0.0")
    assert status == 200
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    parsed = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    families = {family.name: family for family in parsed}
    assert set(families) >= _ORIGINAL
    assert all(families[name].samples for name in _ORIGINAL)
    assert text.endswith("# EOF\n")


@pytest.mark.parametrize("accept", ["", "*/*", "text/plain; version=0.0.4", "version=x, a/b;;"])
def test_all_other_clients_get_prometheus_text(host: Host, accept: str) -> None:
    host.start_agent()
    status, kind, text = _ask(host, "/metrics", Accept=accept)
    assert status == 200
    assert kind.startswith("text/plain; version=0.0.4")
    assert "# EOF" not in text


def test_a_port_of_another_users_keeps_no_agent_from_starting(host: Host) -> None:
    """Any user of the host may take it while the agent restarts."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        host.http_port = taken.getsockname()[1]
        host.start_agent()
        assert card_of(host.kubelet.admit(host.share())["c0"]) == "/dev/nvidia1"
        where = f"127.0.0.1:{host.http_port}: Address already in use"
        assert f"pages and metrics can't be read: {where}" in host.agent.condition.unready()
    host.wait_until(lambda: not host.agent.web.problem)
    with urllib.request.urlopen(f"http://127.0.0.1:{host.http_port}/version") as answer:
        assert answer.status == 200
