"""Whole cards: no hook, all memory, and what the host sees of them."""

import collections
import functools
import json

import pytest

from tests.cluster import workloads
from tests.cluster.kubectl import is_running, wait_for
from tests.cluster.site import Site
from tests.testbed.artifacts import kubernetes

pytestmark = pytest.mark.testbed

CARD_BYTES = 85_899_345_920  # the testbed's A100-SXM4-80GB


def test_two_hundred_cores_are_two_cards_without_a_hook(site: Site) -> None:
    limits = {workloads.CORE: "200", workloads.MEMORY: "60"}
    site.kubectl.apply(workloads.pod("whole", limits))
    site.running("whole")
    seen = site.json("whole", "cuda-workload")
    assert [device["total"] for device in seen["devices"]] == [CARD_BYTES, CARD_BYTES]
    assert site.annotation("whole", "tencent.com/predicate-gpu-idx-0") == "0,1"
    listed = site.kubectl.execute(
        "whole",
        "sh",
        "-c",
        "ls -d /etc/ld.so.preload /etc/vcuda 2>/dev/null; true",
    )
    assert listed == ""


@pytest.mark.skipif(
    kubernetes.CURRENT is kubernetes.OLDER, reason="ResourceHealthStatus is off before 1.36"
)
def test_a_lost_card_shows_in_the_status_of_a_pod_with_all_cards(site: Site) -> None:
    site.kubectl.apply(workloads.pod("all", {workloads.CORE: "200"}))
    host = site.running("all")["spec"]["nodeName"]

    def health() -> dict[str, int]:
        [status] = site.kubectl.get("pod", "all")["status"]["containerStatuses"]
        [cores] = status.get("allocatedResourcesStatus") or [{"resources": []}]
        return dict(collections.Counter(each["health"] for each in cores["resources"]))

    wait_for("all IDs to be healthy", lambda: health() == {"Healthy": 200})
    site.on(host, "simgpu", "lose", "1")
    try:
        wait_for("half of them to be unhealthy", lambda: health().get("Unhealthy") == 100)
    finally:
        site.on(host, "simgpu", "restore", "1")
    wait_for("all to be healthy again", lambda: health() == {"Healthy": 200})


def test_a_whole_card_pod_and_a_share_show_as_two_loads_on_the_host(site: Site) -> None:
    pinned = {"nodeSelector": {"kubernetes.io/hostname": "gpu1"}}
    kernels = ["cuda-workload", "--allocate", "1024", "--kernel-us", "2000", "--seconds", "600"]
    share = {workloads.CORE: "50", workloads.MEMORY: "32"}
    site.kubectl.apply(workloads.pod("load-one", share, kernels, **pinned))
    site.kubectl.apply(workloads.pod("load-two", share, kernels, **pinned))
    site.running("load-one")
    site.running("load-two")

    for name in ("load-one", "load-two"):
        report = wait_for(f"{name} to report", functools.partial(site.kubectl.run, "logs", name))
        (allocation,) = json.loads(report.splitlines()[0])["allocations"]
        assert allocation["result"] == "CUDA_SUCCESS"
        assert allocation["total"] == workloads.SHARE_BYTES

    def loads() -> list[str]:
        table = site.on("gpu1", "nvidia-smi", "pmon", "-s", "u", "-d", "1", "-c", "1")
        rows = [line.split() for line in table.splitlines() if not line.startswith("#")]
        return [row[1] for row in rows if row[1] != "-" and row[3].isdigit() and int(row[3]) > 0]

    wait_for("two loads in pmon", lambda: len(set(loads())) == 2)
    site.kubectl.apply(workloads.whole_card_deployment())
    wait_for(
        "nvidia-smi -l 1 to print its table",
        lambda: (
            "NVIDIA-SMI" in site.kubectl.run("logs", "deployment/vcuda-whole", "--tail=50")
            if any(map(is_running, site.kubectl.items("pods", "--selector=k8s-app=vcuda-whole")))
            else False
        ),
    )
