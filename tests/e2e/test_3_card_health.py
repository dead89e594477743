"""A card at fault takes no new pods, keeps its own, and comes back when root says so."""

import json
from typing import Any

import pytest

from tests.cluster import workloads
from tests.cluster.kubectl import wait_for
from tests.cluster.site import Site

pytestmark = pytest.mark.testbed

HOST, MINOR = "gpu1", "1"
GPUSTACK = "/usr/local/bin/gpustack"


def _states(site: Site) -> dict[str, str]:
    listed = json.loads(site.on(HOST, GPUSTACK, "card", "list", "-o", "json"))
    return {str(card["minor"]): card["state"] for card in listed["cards"]}


def _healthy(site: Site) -> list[bool]:
    node = site.kubectl.get("node", HOST)
    devices = json.loads(node["metadata"]["annotations"]["tencent.com/gpu-devices"])["devices"]
    return [device["healthy"] for device in devices]


def test_a_card_with_a_memory_error_is_avoided_until_it_is_released(site: Site) -> None:
    pinned: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": HOST}}
    site.kubectl.apply(workloads.pod("keeps", {workloads.CORE: "200"}, **pinned))
    before = site.running("keeps")["status"]["containerStatuses"][0]["containerID"]
    site.on(HOST, "simgpu", "xid", MINOR, "48")
    try:
        wait_for("the node to say so", lambda: _healthy(site) == [True, False], seconds=5)
        site.on(HOST, "systemctl", "restart", "gpustack-agent.service")
        assert _states(site) == {"0": "healthy", MINOR: "quarantined"}
        wait_for("the node to say so still", lambda: _healthy(site) == [True, False])
        after = site.running("keeps")["status"]["containerStatuses"][0]
        assert (after["containerID"], after["restartCount"]) == (before, 0)
    finally:
        site.on(HOST, GPUSTACK, "card", "release", MINOR)
    wait_for("the node to offer the card again", lambda: _healthy(site) == [True, True])


def test_a_hung_nvml_restarts_the_agent_and_no_container(site: Site) -> None:
    pinned: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": HOST}}
    site.kubectl.apply(workloads.pod("runs-on", {workloads.CORE: "100"}, **pinned))
    before = site.running("runs-on")["status"]["containerStatuses"][0]["containerID"]

    def shown(name: str) -> str:
        unit = "gpustack-agent.service"
        return site.on(HOST, "systemctl", "show", f"--property={name}", "--value", unit).strip()

    pid = shown("MainPID")
    site.on(HOST, "simgpu", "nvml", "hang")
    try:
        # 30 s until the call counts as hung, and as much until systemd misses the watchdog
        wait_for("another agent", lambda: shown("MainPID") != pid, seconds=120)
    finally:
        site.on(HOST, "simgpu", "nvml", "well")
    wait_for("the agent to be ready", lambda: shown("ActiveState") == "active")
    after = site.running("runs-on")["status"]["containerStatuses"][0]
    assert (after["containerID"], after["restartCount"]) == (before, 0)
