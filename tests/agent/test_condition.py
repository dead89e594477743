"""The agent is ready, or an operator reads the reason."""

import http.client
import pathlib
import socket
import threading

import pytest

from gpustack.adapters.kube import KubeClient
from gpustack.adapters.systemd import Notifier
from gpustack.agent import app
from gpustack.agent.activity import sampler
from gpustack.agent.cluster.pods import PodView
from gpustack.agent.identification import process_owners
from tests.agent.host import NODE, Host
from tests.fakes.kube_api import FakeKubeApi
from tests.waiting import wait_until

_SECONDS = 10.0  # after this long a test counts as hung
_ALWAYS = 10**6


def _ask(host: Host, path: str) -> tuple[int, str]:
    asker = http.client.HTTPConnection("127.0.0.1", host.agent.web.ports[0], timeout=_SECONDS)
    try:
        asker.request("GET", path)
        answer = asker.getresponse()
        return answer.status, answer.read().decode()
    finally:
        asker.close()


def test_an_agent_needs_the_right_to_list_its_pods_to_be_ready(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_SYNC_SECONDS", 0.1)
    refused = host.api.faults.fail("GET", "/pods", status=403, reason="Forbidden", times=_ALWAYS)
    host.start_agent()
    host.wait_until(lambda: host.agent.registrar.ready)
    status, text = _ask(host, "/readyz")
    assert status == 503
    assert "API server answered 403 Forbidden" in text
    assert f"node {NODE} are not known, asked with kubeconfig {host.root / 'kubeconfig'}: " in text
    assert "\ngpustack_pods_watched 0.0\n" in _ask(host, "/metrics")[1]
    assert _ask(host, "/healthz")[0] == 200, "no restart cures it"
    refused.times = 0
    host.wait_until(lambda: _ask(host, "/readyz") == (200, "ok\n"))
    assert "\ngpustack_pods_watched 1.0\n" in _ask(host, "/metrics")[1]


def test_systemd_gets_ready_without_an_api_server_and_the_reason(
    host: Host, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_SYNC_SECONDS", 0.1)
    refused = host.api.faults.fail("GET", "/pods", status=403, reason="Forbidden", times=_ALWAYS)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(_SECONDS)
        host.start_agent()
        join = host.serve(Notifier(str(tmp_path / "notify")))

        def hear(start: str) -> str:
            while not (said := listener.recv(4096).decode()).startswith(start):
                pass
            return said

        assert f"STATUS=the pods of node {NODE} are not known" in hear("READY=1")
        refused.times = 0
        host.wait_until(lambda: not host.agent.pods.problem)
        assert hear("STATUS=2") == "STATUS=2 cards, driver 535.261.03"
        host.agent.tasks.stop.set()
        assert join() == 0


def test_an_agent_needs_the_right_to_publish_its_cards_to_be_ready(host: Host) -> None:
    host.api.faults.fail("PATCH", "/nodes/", status=403, reason="Forbidden", times=1)
    host.start_agent()
    host.wait_until(lambda: _ask(host, "/readyz")[0] == 503)
    text = _ask(host, "/readyz")[1]
    assert "the node's cards are not published: API server answered 403 Forbidden" in text
    assert host.agent.publisher.publish(host.agent.inventory.node)
    host.wait_until(lambda: _ask(host, "/readyz") == (200, "ok\n"))


def test_an_agent_needs_its_container_runtime_to_be_ready(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_owners, "_ASK_SECONDS", 0.2)
    host.start_agent()
    host.wait_until(lambda: _ask(host, "/readyz") == (200, "ok\n"))
    host.cri.stop()
    said = f"the container runtime at {host.cri.endpoint} does not answer: "
    host.wait_until(lambda: said in _ask(host, "/readyz")[1])
    host.cri.start()
    host.wait_until(lambda: _ask(host, "/readyz") == (200, "ok\n"))


def test_a_watch_that_is_lost_for_long_is_a_problem(tmp_path: pathlib.Path) -> None:
    with FakeKubeApi() as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        views = [PodView(client=client, node_name=NODE, late_seconds=late) for late in (0.0, 60.0)]
        strict, patient = views
        assert strict.problem == "the API server has not answered yet"
        for view in views:
            view.start()
            assert view.wait_for_sync(_SECONDS)
        assert [view.problem for view in views] == ["", ""]
        lost = api.faults.fail("GET", "/pods", status=503, times=_ALWAYS)
        api.drop_connections()
        wait_until(lambda: "503" in strict.problem)
        assert patient.problem == ""
        lost.times = 0
        wait_until(lambda: not strict.problem)
        for view in views:
            view.stop()


def test_an_agent_whose_looks_at_the_shares_do_not_end_says_so(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.start_agent()
    host.wait_until(lambda: _ask(host, "/readyz") == (200, "ok\n"))
    goes_on = threading.Event()
    monkeypatch.setattr(host.agent.activity, "look", goes_on.wait)
    monkeypatch.setattr(sampler, "_SILENT_SECONDS", 1.5)
    host.wait_until(lambda: _ask(host, "/readyz")[0] == 503)
    assert "the shares are not watched: no look has ended for " in _ask(host, "/readyz")[1]
    goes_on.set()
    monkeypatch.undo()
    host.wait_until(lambda: _ask(host, "/readyz") == (200, "ok\n"))
