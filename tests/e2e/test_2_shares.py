"""A Deployment of shares: shares of one card, their memory, and whose turn it is."""

from typing import Any

import pytest

from tests.cluster import workloads
from tests.cluster.kubectl import annotations, is_running, scheduling_message, wait_for
from tests.cluster.site import Site

pytestmark = pytest.mark.testbed

FITS = 8  # two hosts x two cards x two halves
ASSIGNED = "tencent.com/gpu-assigned"
SELECTOR = "--selector=k8s-app=vcuda-test"


def replicas(site: Site) -> list[dict[str, Any]]:
    return site.kubectl.items("pods", SELECTOR)


def settle(site: Site) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Apply one replica more than fits; return the running ones and the waiting one."""
    site.kubectl.apply(workloads.share_deployment(FITS + 1))

    def look() -> tuple[list[dict[str, Any]], dict[str, Any]] | None:
        pods = replicas(site)
        running = [pod for pod in pods if is_running(pod)]
        refused = [pod for pod in pods if scheduling_message(pod)]
        settled = len(running) == FITS and len(refused) == 1 and len(pods) == FITS + 1
        return (running, refused[0]) if settled else None

    settled = wait_for(f"{FITS} running and one refused", look, seconds=180)
    assert settled is not None
    return settled


def place_of(pod: dict[str, Any]) -> tuple[str, str]:
    return pod["spec"]["nodeName"], annotations(pod)["tencent.com/predicate-gpu-idx-0"]


def assert_two_a_card(pods: list[dict[str, Any]]) -> None:
    places = [place_of(pod) for pod in pods]
    assert {place: places.count(place) for place in places} == {
        (node, minor): 2 for node in ("gpu1", "gpu2") for minor in ("0", "1")
    }


def test_shares_fill_every_card_and_the_one_too_many_is_told_why(site: Site) -> None:
    running, waiting = settle(site)
    assert_two_a_card(running)
    message = scheduling_message(waiting)
    assert "Insufficient" in message, message
    names = [pod["metadata"]["name"] for pod in running]
    wait_for("gpu-assigned", lambda: all(site.annotation(n, ASSIGNED) == "true" for n in names))


def test_a_tenant_sees_its_share_and_its_excess_is_refused_alone(site: Site) -> None:
    running, _ = settle(site)
    one = running[0]
    two = next(pod for pod in running[1:] if place_of(pod) == place_of(one))
    name, neighbour = one["metadata"]["name"], two["metadata"]["name"]
    seen = site.json(name, "cuda-workload", "--try", "8192", "--try", "4096")
    assert seen["devices"][0]["total"] == workloads.SHARE_BYTES
    assert [each["result"] for each in seen["tries"]] == [
        "CUDA_ERROR_OUT_OF_MEMORY",
        "CUDA_SUCCESS",
    ]
    assert site.json(neighbour, "cuda-workload", "--try", "4096")["tries"][0]["result"] == (
        "CUDA_SUCCESS"
    )
    total = site.kubectl.execute(
        name,
        "/usr/local/nvidia/bin/nvidia-smi",
        "--query-gpu=memory.total",
        "--format=csv,noheader,nounits",
    )
    assert total.strip() == "8192"


def test_processes_of_one_container_share_one_limit(site: Site) -> None:
    site.kubectl.apply(workloads.pod("several", workloads.SHARE))
    site.running("several")
    # the first holds 6 of 8 GiB while the second asks for 4
    script = (
        "cuda-workload --allocate 6144 --hold > /tmp/first & "
        "while ! grep -q CUDA_SUCCESS /tmp/first; do kill -0 $! || exit 1; done; "
        "cuda-workload --try 4096; kill $!"
    )
    second = site.json("several", "sh", "-c", script)
    assert second["tries"][0]["result"] == "CUDA_ERROR_OUT_OF_MEMORY"


def test_deleting_a_pod_frees_its_share_and_the_waiting_one_runs(site: Site) -> None:
    for number in range(FITS):
        site.kubectl.apply(workloads.pod(f"early-{number}", workloads.SHARE))
    pods = [site.running(f"early-{number}") for number in range(FITS)]
    assert_two_a_card(pods)
    site.kubectl.apply(workloads.pod("late", workloads.SHARE))
    wait_for(
        "the late pod to be refused", lambda: scheduling_message(site.kubectl.get("pod", "late"))
    )
    site.kubectl.delete("pod", "early-3")
    assert place_of(site.running("late")) == place_of(pods[3])
