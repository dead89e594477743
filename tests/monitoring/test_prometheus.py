"""Prometheus scrapes a real extender and a real agent over TLS, and every expression has data."""

import functools
import json
import pathlib
from collections.abc import Iterator
from typing import Any, Final

import pytest

from gpustack.adapters.nvml import CardFigures, xid_fault
from tests.adapters.web.reading import TOKEN, Site
from tests.agent.host import NODE, Host
from tests.cli import snapshots
from tests.control_plane import processes
from tests.extender.client import eventually
from tests.extender.mini_cluster import pod
from tests.extender.process import process
from tests.fakes.nvml import card
from tests.monitoring.dashboards import DASHBOARDS
from tests.monitoring.known import METRIC, rules
from tests.monitoring.server import Server, prometheus
from tests.monitoring.tools import promtool

# The original manager's names, which its users' dashboards read; promtool finds fault with them.
ORIGINAL: Final = ("container_gpu_memory_total", "container_request_gpu_memory")
# What returns nothing here, and why.
EMPTY: Final = {
    "sum by (reason) (increase(gpustack_share_violations_total[1h])) > 0": "none escapes",
}
# A card that is closed, and a pod of January, by the fake API server's clock.
ALERTS: Final = {"GpustackCardLost", "GpustackPodWaits"}


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Iterator[Host]:
    with Host(tmp_path) as host:
        yield host


@pytest.fixture
def site(host: Host, tmp_path: pathlib.Path) -> Site:
    """The authority, the files of both daemons, and the account of Prometheus."""
    folder = tmp_path / "site"
    folder.mkdir()
    return Site(folder, host.api)


def section(site: Site, port: int) -> dict[str, Any]:
    return {
        "listen": f"127.0.0.1:{port}",
        "certificate": str(site.folder / "server.crt"),
        "key": str(site.folder / "server.key"),
        "client_ca": str(site.root.certificate),
    }


def fill(host: Host) -> None:
    """Have pods run and wait, a quota hold, and a card close after them."""
    figures = CardFigures(
        busy_ratio=0.5,
        memory_used_bytes=1 << 30,
        power_watts=300.0,
        celsius=40.0,
        uncorrected_errors=0.0,
    )
    host.nvml.shown = {card(minor).uuid: figures for minor in (0, 1)}
    host.nvml.energy = dict.fromkeys(host.nvml.shown, 90.0)
    host.api.create("configmaps", snapshots.quota(json.dumps({"default": {"quota": {"A100": 2}}})))
    host.start_agent()
    host.kubelet.admit(host.whole_card("big", 0))
    host.kubelet.admit(host.share("p", 1))
    host.nvml.send_xid(xid_fault(card(0).uuid, 48))


def jobs(site: Site, agent: int, extender: int) -> list[dict[str, Any]]:
    """Return the jobs: the agent by a client's certificate, the extender by a token."""
    client = site.authority.client("prometheus").store(site.folder, "client")
    authority = {"ca_file": str(site.root.certificate)}
    shown = {"cert_file": str(client.certificate), "key_file": str(client.key)}
    return [
        {
            "job_name": "gpustack-agents",
            "scheme": "https",
            "tls_config": authority | shown,
            "static_configs": [{"targets": [f"127.0.0.1:{agent}"]}],
        },
        {
            "job_name": "gpustack-extenders",
            "scheme": "https",
            "tls_config": authority,
            "authorization": {"credentials": TOKEN},
            "static_configs": [{"targets": [f"127.0.0.1:{extender}"]}],
        },
    ]


def check_texts(site: Site, *ports: int) -> None:
    """See promtool accept what each port answers, but for names that aren't ours."""
    for site.port in ports:
        answer = site.ask(TOKEN)
        assert answer.status == 200
        _, said = promtool("check", "metrics", text=answer.body)
        assert [line for line in said.splitlines() if not line.startswith(ORIGINAL)] == []


def check_expressions(server: Server) -> None:
    """See data for all that dashboards and rules read."""
    wanted = [line for made in DASHBOARDS for line in made.expressions()]
    wanted += [rule["record"] for rule in rules("record")]
    # An alert's own expression is empty while all is well; the figures in it are not.
    wanted += [name for rule in rules("alert") for name in METRIC.findall(rule["expr"])]
    for line in dict.fromkeys(wanted):
        if line in EMPTY:
            assert not server.has(line), line
        else:
            eventually(functools.partial(server.has, line), functools.partial(str, line))


def becomes(server: Server, expected: set[str]) -> None:
    """Wait until these alerts are pending, and no other; promtool tests for how long they are."""
    eventually(lambda: server.alerts() == expected, lambda: str(server.alerts()))


def set_quota(host: Host, cards: float) -> None:
    text = json.dumps({"default": {"quota": {"A100": cards}}})
    host.api.edit("configmaps", "gpuquota", {"data": {"gpu_quota": text}}, "kube-system")


@pytest.mark.long
def test_prometheus_reads_both_daemons(host: Host, site: Site, tmp_path: pathlib.Path) -> None:
    port = processes.free_port()
    host.configuration["metrics"] = section(site, 0)
    fill(host)
    agent = host.agent.web.ports[1]
    with process(host.api, tmp_path, metrics=section(site, port)) as extender:
        waits = host.api.create("pods", pod("waits", 200))
        eventually(lambda: extender.call("GET", "/readyz").status == 200)
        body = {"Pod": waits, "Nodes": None, "NodeNames": [NODE]}
        assert extender.call("POST", "/scheduler/filter", json.dumps(body).encode()).status == 200
        with prometheus(tmp_path, jobs(site, agent, port)) as server:
            check_texts(site, agent, port)
            eventually(lambda: server.has("namespace:gpustack_cost:rate5m"))
            check_expressions(server)
            becomes(server, ALERTS)
            set_quota(host, 0.5)
            becomes(server, ALERTS | {"GpustackQuotaExceeded"})
            set_quota(host, 2)
            becomes(server, ALERTS)
            host.stop_agent()
            becomes(server, {"GpustackAgentDown", "GpustackPodWaits"})
            assert extender.stop() == 0
            becomes(server, {"GpustackAgentDown", "GpustackExtenderDown", "GpustackNoExtender"})
