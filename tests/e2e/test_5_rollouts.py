"""Workloads are rolled while daemons die: at each quiet moment all views of the cards agree."""

import json
import pathlib
import random
import time
from typing import Any

import pytest

from tests.cluster import node_views, workloads
from tests.cluster.kubectl import KubectlError, annotations, is_running, wait_for
from tests.cluster.site import Site

pytestmark = pytest.mark.testbed

UNIT_BYTES = 268_435_456
GPU_HOSTS = ("gpu1", "gpu2")
UNITS = {
    "agent": (GPU_HOSTS, "gpustack-agent.service"),
    "mounts": (GPU_HOSTS, "gpustack-mount.service"),
    "kubelet": (GPU_HOSTS, "kubelet.service"),
    "containerd": (GPU_HOSTS, "containerd.service"),
    "API server": (("cp1",), "kube-apiserver.service"),
    "extender": (("cp1",), "gpustack-extender.service"),
}
NODE_VIEWS = pathlib.Path(node_views.__file__).read_text()
PRODUCT = "/opt/gpustack/venv/bin/python"
ROLLED = ("deployment/web", "statefulset/db")
SETTLE_SECONDS = 180


def workload(kind: str, name: str, replicas: int, limits: dict[str, str]) -> dict[str, Any]:
    container = workloads.container(limits, ["sleep", "360000s"])
    made = workloads.deployment(name, replicas, container)
    if kind == "StatefulSet":
        made["kind"], made["spec"]["serviceName"] = kind, name
        made["spec"]["podManagementPolicy"] = "Parallel"
    return made


def patiently(site: Site, *arguments: str) -> None:
    """Run kubectl until the API server has taken it."""

    def run() -> bool:
        try:
            site.kubectl.run(*arguments)
        except KubectlError:
            return False
        return True

    wait_for(f"kubectl {' '.join(arguments)}", run, seconds=60)


def pods(site: Site) -> list[dict[str, Any]]:
    """Return those that aren't over: a kubelet without plugins fails a pod, and another comes."""
    found = site.kubectl.items("pods")
    return [pod for pod in found if pod["status"].get("phase") not in {"Failed", "Succeeded"}]


def is_quiet(site: Site) -> bool:
    try:
        for name in ROLLED:
            found = site.kubectl.get(name)
            wanted, status = found["spec"]["replicas"], found["status"]
            counts = [status.get(each) for each in ("replicas", "updatedReplicas", "readyReplicas")]
            if counts != [wanted] * 3:
                return False
            if status.get("observedGeneration") != found["metadata"]["generation"]:
                return False
        running = pods(site)
    except KubectlError:
        return False
    return len(running) == 7 and all(
        is_running(pod) and "deletionTimestamp" not in pod["metadata"] for pod in running
    )


def cards_of(site: Site) -> dict[str, dict[int, str]]:
    """Return each GPU host's cards: UUIDs by minor number."""
    return {
        host: {each["minor"]: each["uuid"] for each in json.loads(text)["devices"]}
        for host in GPU_HOSTS
        for text in [annotations(site.kubectl.get("node", host))["tencent.com/gpu-devices"]]
    }


def decided(site: Site, cards: dict[str, dict[int, str]]) -> dict[str, list[Any]]:
    """Return what the API server says of each container: cards and bytes of memory."""
    return {
        f"{pod['metadata']['uid']}/{container['name']}": [
            [cards[pod["spec"]["nodeName"]][int(annotations(pod)["tencent.com/predicate-gpu-idx-0"])]],
            int(container["resources"]["limits"][workloads.MEMORY]) * UNIT_BYTES,
        ]
        for pod in pods(site)
        for container in pod["spec"]["containers"]
    }  # fmt: skip


def differences(site: Site) -> list[str]:
    """Compare the views of the hosts with the API server's; name what differs."""
    cards = cards_of(site)
    said = decided(site, cards)
    seen: dict[str, dict[str, Any]] = {}
    for host in GPU_HOSTS:
        views = json.loads(site.on(host, PRODUCT, "-c", NODE_VIEWS))
        for value in views["runtime"].values():
            value[0] = [cards[host][minor] for minor in value[0]]
        for view, containers in views.items():
            seen.setdefault(view, {}).update(containers)
    # The kubelet keeps what pods had that are gone until it allocates again (device manager's
    # UpdateAllocatedDevices, which it calls at the admission of a pod).
    seen["kubelet"] = {key: had for key, had in seen["kubelet"].items() if key in said}
    expected = {
        "records": said,
        "kubelet": {key: memory for key, (_, memory) in said.items()},
        "runtime": said,
        "limits": said,
        "ledgers": {key: uuids for key, (uuids, _) in said.items()},
    }
    return [
        f"{view} {key}: {seen[view].get(key)} instead of {wanted.get(key)}"
        for view, wanted in expected.items()
        for key in sorted(seen[view].keys() | wanted.keys())
        if seen[view].get(key) != wanted.get(key)
    ]


def assert_all_agree(site: Site) -> None:
    left: list[str] = []

    def agree() -> bool:
        try:
            left[:] = differences(site)
        except AssertionError as error:  # a daemon that was killed is away for a second
            left[:] = [str(error)]
        return not left

    try:
        # an agent that has just started looks at ended pods every few seconds
        wait_for("all views to agree", agree, seconds=60)
    except AssertionError as error:
        raise AssertionError("\n".join(left)) from error
    said = decided(site, cards_of(site))
    for pod in pods(site):
        (container,) = pod["spec"]["containers"]
        cards, memory = said[f"{pod['metadata']['uid']}/{container['name']}"]
        shown = site.json(pod["metadata"]["name"], "cuda-workload")["devices"]
        assert [each["uuid"] for each in shown] == cards
        assert [each["total"] for each in shown] == [memory]


def roll_and_kill(site: Site, chosen: random.Random) -> str:
    """Roll both workloads and kill a daemon now and one while pods start; return which."""
    for name in ROLLED:
        patiently(site, "rollout", "restart", name)
    killed = []
    for part in chosen.sample(sorted(UNITS), 2):
        hosts, unit = UNITS[part]
        host = chosen.choice(hosts)
        site.on(host, "systemctl", "kill", "--kill-who=main", "--signal=SIGKILL", unit)
        killed.append(f"{part} of {host}")
        time.sleep(chosen.uniform(0, 2))  # the moment of the next kill is left to chance
    return ", ".join(killed)


@pytest.mark.parametrize(
    "seconds", [120, pytest.param(600, marks=pytest.mark.nightly)], ids=["two minutes", "ten"]
)
def test_views_agree_whenever_a_rollout_under_kills_has_ended(site: Site, seconds: float) -> None:
    site.kubectl.apply(workload("Deployment", "web", 3, workloads.SHARE))
    limits = {workloads.CORE: "20", workloads.MEMORY: "16"}
    site.kubectl.apply(workload("StatefulSet", "db", 4, limits))
    chosen = random.Random(int(seconds))  # noqa: S311
    killed: list[str] = []
    end = time.monotonic() + seconds
    try:
        while True:
            wait_for("a quiet moment", lambda: is_quiet(site), seconds=SETTLE_SECONDS)
            assert_all_agree(site)
            if time.monotonic() > end:
                break
            killed.append(roll_and_kill(site, chosen))
    finally:
        print(f"killed: {'; '.join(killed)}")
        site.kubectl.delete("statefulset/db")
    assert len(killed) >= seconds / 60
