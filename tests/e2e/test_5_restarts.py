"""Daemons die at the worst moments: no running container and no device is lost, the rest heals."""

import concurrent.futures
from typing import Any

import pytest

from tests.cluster import rollout, workloads
from tests.cluster.kubectl import annotations, is_running, wait_for
from tests.cluster.site import Site

pytestmark = pytest.mark.testbed

SELECTOR = "--selector=k8s-app=vcuda-test"
# binpack fills gpu1 first: two replicas run there, and the next ones are admitted beside them
BEFORE, AFTER = 2, 8
UNITS = {
    "kubelet": ("gpu1", "kubelet.service"),
    "agent": ("gpu1", "gpustack-agent.service"),
    "extender": ("cp1", "gpustack-extender.service"),
}
# Each daemon while its own work is half done. `make system-all` takes the other pairs too.
WORST = {("agent", "allocate"), ("extender", "bind"), ("kubelet", "before-start")}
CONTAINERS = "/var/lib/gpustack/containers"
# What can be seen on gpu1 while it happens: Allocate makes a folder a container, and writes the
# limits into it before it answers; the container itself is created after that.
SEEN = {"allocate": CONTAINERS + "/*/*", "before-start": CONTAINERS + "/*/*/limits"}


def running(site: Site) -> dict[str, str]:
    """Return the container ID of every running replica by pod name."""
    return {
        pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["containerID"]
        for pod in site.kubectl.items("pods", SELECTOR)
        if is_running(pod)
    }


def devices(site: Site) -> dict[str, Any]:
    return {
        node["metadata"]["name"]: (
            node["status"]["allocatable"].get(workloads.CORE),
            node["status"]["allocatable"].get(workloads.MEMORY),
        )
        for node in site.kubectl.items("nodes")
    }


def scale(site: Site, replicas: int) -> None:
    site.kubectl.run("scale", "deployment/vcuda-test", f"--replicas={replicas}")


def start(site: Site) -> dict[str, str]:
    site.kubectl.apply(workloads.share_deployment(BEFORE))
    wait_for(f"{BEFORE} replicas", lambda: len(running(site)) == BEFORE, seconds=120)
    return running(site)


def assert_nothing_lost(site: Site, before: dict[str, str]) -> None:
    wait_for(f"{AFTER} replicas", lambda: len(running(site)) == AFTER, seconds=180)
    now = running(site)
    assert {name: now.get(name) for name in before} == before, "a running container was lost"
    wait_for(
        "every device to be offered",
        lambda: set(devices(site).values()) == {("200", "640")},
        seconds=30,
    )


@pytest.mark.parametrize("daemon", sorted(UNITS))
def test_a_daemon_restarted_while_idle_loses_nothing(site: Site, daemon: str) -> None:
    before = start(site)
    host, unit = UNITS[daemon]
    site.on(host, "systemctl", "restart", unit)
    scale(site, AFTER)
    assert_nothing_lost(site, before)


@pytest.mark.parametrize(
    ("daemon", "moment"),
    [
        pytest.param(daemon, moment, marks=[] if (daemon, moment) in WORST else pytest.mark.nightly)
        for daemon in sorted(UNITS)
        for moment in ("bind", "allocate", "before-start")
    ],
)
def test_a_daemon_killed_at_a_bad_moment_loses_nothing(
    site: Site, daemon: str, moment: str
) -> None:
    before = start(site)
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as pool:
        killed = pool.submit(kill_at, site, daemon, moment)
        scale(site, AFTER)
        killed.result(timeout=120)
    assert_nothing_lost(site, before)


def test_an_agent_starts_when_the_driver_that_was_missing_comes(site: Site) -> None:
    tool, units = "/usr/bin/nvidia-modprobe", "gpustack-agent.service gpustack-device.service"
    away = f"mv {tool} {tool}.away; systemctl stop {units}"
    site.on("gpu1", "sh", "-c", f"{away}; systemctl start --no-block gpustack-agent.service")

    def states() -> list[str]:
        return site.on("gpu1", "sh", "-c", f"systemctl is-active {units}; true").split()

    wait_for("the device unit to fail", lambda: states()[1] == "failed")
    site.on("gpu1", "mv", f"{tool}.away", tool)
    # it is tried every ten seconds
    wait_for("both units to run", lambda: states() == ["active", "active"], seconds=60)
    wait_for(
        "every device to be offered",
        lambda: set(devices(site).values()) == {("200", "640")},
        seconds=30,
    )


def kill_at(site: Site, daemon: str, moment: str) -> None:
    """Kill the daemon as soon as the moment can be seen."""
    host, unit = UNITS[daemon]
    kill = ("systemctl", "kill", "--signal=SIGKILL", unit)
    if moment == "bind":
        wait_for("a third decision", lambda: decided(site) > BEFORE)
        site.on(host, *kill)
        return
    wait = f'until [ "$(ls -d {SEEN[moment]} 2>/dev/null | wc -l)" -gt {BEFORE} ]; do :; done'
    if host == "gpu1":
        site.on("gpu1", "sh", "-c", f"{wait}; {' '.join(kill)}")
        return
    site.on("gpu1", "sh", "-c", wait)
    site.on(host, *kill)


def decided(site: Site) -> int:
    """Return how many replicas carry the extender's decision."""
    pods = site.kubectl.items("pods", SELECTOR)
    return sum("tencent.com/predicate-node" in annotations(pod) for pod in pods)


@pytest.mark.nightly  # by day test_uninstall.py has the playbook's questions
def test_uninstall_is_refused_while_a_pod_holds_a_card(site: Site) -> None:
    site.kubectl.apply(workloads.pod("tenant", workloads.SHARE))
    site.running("tenant")
    before = site.traces()
    with pytest.raises(rollout.PlaybookError, match="default/tenant"):
        site.playbook("uninstall", "--extra-vars=uninstall_confirmed=true")
    assert site.traces() == before
    assert all(recap.failed == 0 for recap in site.playbook("verify").values())
