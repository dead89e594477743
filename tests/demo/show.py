"""Apply a Deployment of shares and show each pod's card, the waiting pod, and a tenant's view.

Every line of the summary is a check: it is printed with what was seen, and the demo's exit status
is 0 only if all of them held.
"""

import dataclasses
from typing import Any

from tests.cluster import workloads
from tests.cluster.kubectl import annotations, is_running, scheduling_message, wait_for
from tests.cluster.site import Site

GIB = 1 << 30
# over what is left of an 8 GiB share, whatever a context takes
TOO_MUCH_MIB = 8 * 1024
ENOUGH_MIB = 4 * 1024
SELECTOR = "--selector=k8s-app=vcuda-test"


@dataclasses.dataclass(slots=True)
class Checks:
    """What was claimed and whether it held."""

    failed: int = 0

    def claim(self, what: str, holds: bool, seen: object) -> None:
        """Print one claim with what was seen."""
        print(f"  {'ok  ' if holds else 'FAIL'} {what} ({seen})")
        self.failed += not holds


def capacity(site: Site) -> int:
    """Return how many half-card shares the nodes offer: whole halves, card by card.

    A kubelet tells the API server of new cards within its reporting interval, so the last node
    may offer its own a little after site.yml has ended.
    """

    def offered() -> list[int]:
        nodes = site.kubectl.items("nodes", "--selector=nvidia-device-enable=enable")
        cores = [int(node["status"]["allocatable"].get(workloads.CORE, "0")) for node in nodes]
        return cores if all(cores) else []

    cores = wait_for("every GPU host to offer its cards", offered)
    return sum(each // int(workloads.SHARE[workloads.CORE]) for each in cores)


def run(site: Site) -> bool:
    """Show the main job; return whether everything that must hold did."""
    checks = Checks()
    fits = capacity(site)
    print(f"\n==> a Deployment of half cards, {fits} replicas that fit and one more")
    site.kubectl.apply(workloads.share_deployment(fits + 1))
    pods = wait_for("all but one replica to run", lambda: settled(site, fits), seconds=180)
    running = [pod for pod in pods if is_running(pod)]
    waiting = [pod for pod in pods if not is_running(pod)]
    show_cards(running)
    for pod in waiting:
        print(f"  {pod['metadata']['name']}  waits: {scheduling_message(pod)}")
    checks.claim(f"{fits} run, one waits and says why", len(waiting) == 1, len(running))
    tenant_view(site, checks, running)
    return checks.failed == 0


def settled(site: Site, fits: int) -> list[dict[str, Any]]:
    """Return the replicas once all but one run and that one has been refused, else nothing."""
    pods = site.kubectl.items("pods", SELECTOR)
    running = [pod for pod in pods if is_running(pod)]
    refused = [pod for pod in pods if scheduling_message(pod)]
    return pods if len(running) == fits and len(refused) == 1 else []


def show_cards(pods: list[dict[str, Any]]) -> None:
    """Print which pod got which card."""
    print(f"  {'POD':<32}{'NODE':<8}{'CARD':<6}UUID")
    for pod in sorted(pods, key=lambda pod: (pod["spec"]["nodeName"], card(pod))):
        notes = annotations(pod)
        uuid = notes.get("tencent.com/predicate-gpu-uuid-0", "?")
        name = pod["metadata"]["name"]
        print(f"  {name:<32}{pod['spec']['nodeName']:<8}{card(pod):<6}{uuid}")


def card(pod: dict[str, Any]) -> str:
    """Return the minor of the pod's card."""
    return annotations(pod).get("tencent.com/predicate-gpu-idx-0", "?")


def tenant_view(site: Site, checks: Checks, running: list[dict[str, Any]]) -> None:
    """Show what one tenant sees, and that its excess is its own."""
    first = running[0]
    neighbour = next(
        pod
        for pod in running[1:]
        if (pod["spec"]["nodeName"], card(pod)) == (first["spec"]["nodeName"], card(first))
    )
    one, two = first["metadata"]["name"], neighbour["metadata"]["name"]
    print(f"\n==> what {one} sees of its 80 GiB card; {two} is its neighbour on it")
    print(site.kubectl.execute(one, "/usr/local/nvidia/bin/nvidia-smi"))
    seen = site.json(one, "cuda-workload")
    total = seen["devices"][0]["total"]
    checks.claim("cuMemGetInfo says 8 GiB", total == workloads.SHARE_BYTES, f"{total} bytes")
    smi = site.kubectl.execute(
        one,
        "/usr/local/nvidia/bin/nvidia-smi",
        "--query-gpu=memory.total",
        "--format=csv,noheader,nounits",
    ).strip()
    checks.claim("nvidia-smi says 8 GiB", smi == str(8 * 1024), f"{smi} MiB")
    refused = allocation(site, one, TOO_MUCH_MIB)
    checks.claim(
        "8 GiB beside a context is refused", refused == "CUDA_ERROR_OUT_OF_MEMORY", refused
    )
    granted = allocation(site, two, ENOUGH_MIB)
    checks.claim("its neighbour's 4 GiB is granted", granted == "CUDA_SUCCESS", granted)


def allocation(site: Site, pod: str, mib: int) -> str:
    """Try one allocation in a pod; return the driver's answer by name."""
    answer = site.json(pod, "cuda-workload", "--try", str(mib))
    return str(answer["tries"][0]["result"])
