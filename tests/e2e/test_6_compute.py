"""Shares of GPU time, on the simulated card's time line, through real kubelet and containerd."""

import json
import time
from typing import Any

import pytest

from tests.cluster import workloads
from tests.cluster.kubectl import annotations, wait_for
from tests.cluster.site import Site

pytestmark = pytest.mark.bench

SECONDS = 60
KERNEL_US = 10_000
POINTS = 3.0
LIMIT = "tencent.com/vcuda-core-limit"


def share(cores: int) -> dict[str, str]:
    return {workloads.CORE: str(cores), workloads.MEMORY: "16"}


def launching(seconds: int) -> list[str]:
    return ["cuda-workload", "--kernel-us", str(KERNEL_US), "--seconds", str(seconds)]


def used_percent(printed: str) -> float:
    """Return the GPU time of what was launched, as a share of the time that it took."""
    done = json.loads(printed.splitlines()[-1])
    assert done["result"] == "CUDA_SUCCESS", printed
    return float(done["launches"] * done["kernel_us"] / done["seconds"] / 1e4)


def place_of(pod: dict[str, Any]) -> tuple[str, str]:
    return pod["spec"]["nodeName"], annotations(pod)["tencent.com/predicate-gpu-idx-0"]


def test_two_pods_get_their_shares_of_one_card(site: Site) -> None:
    shares = {"less": 30, "more": 70}
    for name, cores in shares.items():
        # Ahead: how soon a program wakes up on a busy host is not what is measured.
        command = [*launching(SECONDS), "--ahead", "--hold"]
        site.kubectl.apply(workloads.pod(name, share(cores), command))
    places = {place_of(site.running(name)) for name in shares}
    assert len(places) == 1, "they are on one card"

    def finished() -> dict[str, str]:
        logs = {name: site.kubectl.run("logs", name) for name in shares}
        return logs if all("launches" in text for text in logs.values()) else {}

    printed = wait_for("both to have launched for a minute", finished, seconds=3 * SECONDS)
    used = {name: used_percent(text) for name, text in printed.items()}
    assert used == pytest.approx(shares, abs=POINTS)


def test_a_changed_ceiling_holds_within_two_seconds(site: Site) -> None:
    site.kubectl.apply(workloads.pod("elastic", share(30)))
    site.running("elastic")

    def use() -> float:
        return used_percent(site.kubectl.execute("elastic", *launching(1)))

    assert use() < 50, "nothing allows it more than its share"
    site.kubectl.run("annotate", "pod", "elastic", f"{LIMIT}=100")
    changed = time.monotonic()
    while (found := use()) < 80:
        assert time.monotonic() - changed < 10, f"it gets {found:.0f} % still"
    # What was seen began a second and the start of a process before it was seen.
    assert time.monotonic() - changed < 2 + 2
