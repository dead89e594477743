"""Each agent with each extender and each hook of a neighbouring release: pods go the whole way."""

import itertools

import pytest

from tests.extender.client import eventually
from tests.hook.container import MIB
from tests.simgpu_tests.machine import first_line
from tests.versions import tenant
from tests.versions.cluster import CARD_BYTES, Cluster
from tests.versions.pods import KEYS, SHARE_UNITS, Pod, minor_of, share, whole_card
from tests.versions.releases import Releases

SHARE_BYTES = SHARE_UNITS * 256 * MIB
NO_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
ALLOCATE = f"""
    enter()
    assert allocate({SHARE_BYTES} // 2)[0] == 0
    print(info()[1], allocate({SHARE_BYTES} // 2)[0], flush=True)
    input()
"""
# Agent, extender, hook: an upgrade that leaves the extender out, and one of the hook alone.
# test_order.py and test_newer_files.py have the others that an upgrade passes through.
TELLING = [("ours", "old", "ours"), ("ours", "ours", "next")]


def cells() -> list[object]:
    """Return all of this release with the one before and with the one after."""
    found = {
        cell
        for neighbour in ("old", "next")
        for cell in itertools.product((neighbour, "ours"), repeat=3)
    }
    # A hook at other paths goes with its agent alone: test_pairs.py.
    possible = sorted(cell for cell in found if (cell[0] == "old") == (cell[2] == "old"))
    mark = {True: pytest.mark.long, False: pytest.mark.nightly}
    return [pytest.param(*cell, marks=mark[cell in TELLING]) for cell in possible]


def is_assigned(cluster: Cluster, pod: Pod) -> bool:
    found = cluster.api.get("pods", pod["metadata"]["name"])["metadata"]["annotations"]
    return bool(found[KEYS.gpu_assigned] == "true")


@pytest.mark.parametrize(("agent", "extender", "hook"), cells())
def test_pods_go_the_whole_way(
    cluster: Cluster, releases: Releases, agent: str, extender: str, hook: str
) -> None:
    cluster.start_extender(releases[extender])
    cluster.start_agent(releases[agent], hook=releases[hook])
    part, whole = cluster.schedule(share("part")), cluster.schedule(whole_card("whole"))
    assert {minor_of(part), minor_of(whole)} == {0, 1}
    for pod, sees_bytes, more in ((part, SHARE_BYTES, NO_MEMORY), (whole, CARD_BYTES, 0)):
        answer = cluster.admit(pod)
        assert tenant.minor(answer) == minor_of(pod)
        if pod is part:
            layout = min(releases[agent].layout, releases[hook].layout)
            assert tenant.layouts(answer, releases[hook].paths) == [layout] * 3
            assert releases[hook].name in str(tenant.hook_of(answer))
        else:
            assert tenant.hook_of(answer) is None
        with cluster.tenant(pod, answer, releases[hook], ALLOCATE) as process:
            assert first_line(process) == f"{sees_bytes} {more}"
        assert cluster.measures(pod)
    eventually(lambda: is_assigned(cluster, part) and is_assigned(cluster, whole))
    assert cluster.cards() == {minor_of(part): 50, minor_of(whole): 100}
    assert not cluster.fits(cluster.api.create("pods", whole_card("waits")))
    cluster.end(whole)
    again = cluster.schedule(whole_card("again"))
    assert tenant.minor(cluster.admit(again)) == minor_of(again) == minor_of(whole)
    cluster.end(part)
    cluster.end(again)
    eventually(lambda: cluster.cards() == {0: 0, 1: 0})
