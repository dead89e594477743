"""A Prometheus beside the cluster fires an alert for each fault, and resolves it with the fault.

It has the repository's rules without their durations, which promtool tests.
"""

import collections.abc
import json
import pathlib
import re
from typing import Any, Final

import pytest

from tests.cluster import workloads
from tests.cluster.kubectl import wait_for
from tests.cluster.site import Site
from tests.monitoring.server import Server, prometheus
from tests.monitoring.tools import RULES
from tests.testbed import description

pytestmark = [pytest.mark.testbed, pytest.mark.nightly]

HOST, MINOR = "gpu1", "1"
PLACE: Final = {"kubernetes.io/hostname": HOST}
AGENTS, EXTENDER = 5679, 3457
ACCOUNT = "prometheus"
READERS = "gpustack-readers"
KUBELET = "/var/lib/kubelet/pki/kubelet"
SERVED: Final = {
    "gpustack_agent_metrics_listen": f"0.0.0.0:{AGENTS}",
    # the testbed's kubelets sign their own certificates
    "gpustack_agent_metrics_certificate": f"{KUBELET}.crt",
    "gpustack_agent_metrics_key": f"{KUBELET}.key",
    "gpustack_extender_metrics_listen": f"0.0.0.0:{EXTENDER}",
}
DURATION = re.compile(r"^ +for: .*\n", re.MULTILINE)
WINDOW, SHORT_WINDOW = "[15m]", "[15s]"
QUOTA: Final = {"name": "gpuquota", "namespace": "kube-system"}


@pytest.fixture
def token(site: Site) -> collections.abc.Iterator[str]:
    """Give the token of an account that may read metrics."""
    kubectl = site.kubectl
    kubectl.run("create", "serviceaccount", ACCOUNT)
    bound = ("--clusterrole=system:monitoring", f"--serviceaccount=default:{ACCOUNT}")
    kubectl.run("create", "clusterrolebinding", READERS, *bound)
    yield kubectl.run("create", "token", ACCOUNT).strip()
    kubectl.delete("clusterrolebinding", READERS)
    kubectl.delete("serviceaccount", ACCOUNT)


@pytest.fixture
def served(site: Site) -> collections.abc.Iterator[None]:
    """Let agents and extender serve their metrics to other machines."""
    site.playbook("site", f"--extra-vars={json.dumps(SERVED)}")
    yield
    site.playbook("site")


def jobs(site: Site, token: str, authority: pathlib.Path) -> list[dict[str, Any]]:
    """Return what Prometheus reads: the agents and the extender, with the token."""
    hosts = description.load(site.name).hosts
    cards = [f"{each.address}:{AGENTS}" for each in hosts if each.role is description.Role.GPU]
    [plane] = [each for each in hosts if each.role is description.Role.CONTROL_PLANE]
    shown = {"scheme": "https", "authorization": {"credentials": token}}
    return [
        {
            **shown,
            "job_name": "gpustack-agents",
            "tls_config": {"insecure_skip_verify": True},
            "static_configs": [{"targets": cards}],
        },
        {
            **shown,
            "job_name": "gpustack-extenders",
            "tls_config": {"ca_file": str(authority)},
            "static_configs": [{"targets": [f"{plane.address}:{EXTENDER}"]}],
        },
    ]


def hasty_rules(folder: pathlib.Path) -> list[pathlib.Path]:
    """Write the rules so that what is wrong for a moment fires for that moment."""
    folder.mkdir()
    for file in RULES:
        text = DURATION.sub("", file.read_text()).replace(WINDOW, SHORT_WINDOW)
        (folder / file.name).write_text(text)
    return sorted(folder.iterdir())


@pytest.fixture
def server(
    site: Site, served: None, token: str, tmp_path: pathlib.Path
) -> collections.abc.Iterator[Server]:
    """Give a Prometheus that has read all hosts, of which no alert tells."""
    authority = tmp_path / "ca.crt"
    authority.write_text(site.on("cp1", "cat", "/etc/gpustack/pki/ca.crt"))
    with prometheus(
        tmp_path, jobs(site, token, authority), rules=hasty_rules(tmp_path / "rules")
    ) as server:
        wait_for("all to be read", lambda: server.has("count(up == 1) == 3"))
        yield server


def fires(server: Server, *names: str) -> None:
    """Wait until these alerts fire, and no other."""
    wait_for(f"{set(names)} to fire alone", lambda: server.alerts() == set(names), seconds=90)


def test_each_fault_fires_its_alert_until_it_is_mended(site: Site, server: Server) -> None:
    fires(server)

    site.on(HOST, "simgpu", "xid", MINOR, "48")
    fires(server, "GpustackCardLost")
    site.on(HOST, "gpustack", "card", "release", MINOR)
    fires(server)

    site.on(HOST, "systemctl", "stop", "gpustack-agent.service")
    fires(server, "GpustackAgentDown")
    site.on(HOST, "systemctl", "start", "gpustack-agent.service")
    fires(server)

    site.on("cp1", "systemctl", "stop", "gpustack-extender.service")
    fires(server, "GpustackExtenderDown", "GpustackNoExtender")
    site.on("cp1", "systemctl", "start", "gpustack-extender.service")
    fires(server)

    command = ["sh", "-c", workloads.MOVING]
    site.kubectl.apply(workloads.pod("stays", workloads.SHARE, command, nodeSelector=PLACE))
    fires(server, "GpustackShareViolation")
    site.kubectl.delete("pod", "stays")
    fires(server)

    site.kubectl.apply(workloads.pod("two", {workloads.CORE: "200"}, nodeSelector=PLACE))
    site.running("two")
    model = site.kubectl.get("node", HOST)["metadata"]["labels"]["gaia.tencent.com/gpu-model"]
    text = json.dumps({"default": {"quota": {model: 1}}})
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    site.kubectl.apply({**kind, "metadata": QUOTA, "data": {"gpu_quota": text}})
    fires(server, "GpustackQuotaExceeded")
    site.kubectl.delete("configmap", QUOTA["name"], "-n", QUOTA["namespace"])
    fires(server)
