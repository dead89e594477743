"""A pod that was let pass counts in its quota before it is bound, for the scheduler counts it."""

import functools
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpustack.model.quota.quota import NamespaceQuota, Quota
from tests.extender.calls import at_once, bind, filter_nodes, preempt_result
from tests.extender.client import eventually
from tests.extender.mini_cluster import LEAVING, MiniCluster, node, pod, serving, unschedulable
from tests.fakes.kube_api import FakeKubeApi

LONGEST_SECONDS = 2160.0
NAMED_AGAIN_SECONDS = 660.0
GONE_SECONDS = 10.0
REFUSAL_SECONDS = 30.0
_PROBES = itertools.count()


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster(api: FakeKubeApi, tmp_path: Path, clock: Clock) -> Iterator[MiniCluster]:
    """Two nodes of four cards; the namespace may have two."""
    for name in ("gpu1", "gpu2"):
        api.create("nodes", node(name, 4))
    with serving(api, tmp_path, clock=clock, threads=100, stale_seconds=1e6) as mini:
        limit = NamespaceQuota(cards={"A100": 200})
        mini.service.cache.set_quota(Quota(namespaces={"default": limit}))
        yield mini


def passes(mini: MiniCluster, asked: dict[str, Any]) -> bool:
    """Let the scheduler ask for nodes; returns whether there are any."""
    result = filter_nodes(mini, asked)
    assert not result["Error"]
    return bool(result["NodeNames"])


def claims(mini: MiniCluster, name: str, cores: int = 100) -> dict[str, Any]:
    """Create a pod that is let pass, and that nobody binds."""
    created = mini.sees(mini.create(pod(name, cores)))
    assert passes(mini, created)
    return created


def room(mini: MiniCluster) -> bool:
    """Say whether a new pod of one card would be let pass; its own claim ends."""
    asked = mini.sees(mini.create(pod(f"probe-{next(_PROBES)}", 100)))
    found = passes(mini, asked)
    preempt_result(mini, asked, {})
    return found


def test_pods_that_wait_to_be_bound_count_in_the_quota(cluster: MiniCluster) -> None:
    for name in ("one", "two"):
        claims(cluster, name)
    asked = cluster.create(pod("three", 100))
    refused = filter_nodes(cluster, asked)["FailedAndUnresolvableNodes"]
    assert {each.split(":")[0] for each in refused.values()} == {"QuotaExceeded"}


def test_a_hundred_pods_that_pass_at_once_claim_no_more_than_the_quota(
    cluster: MiniCluster,
) -> None:
    asked = [cluster.create(pod(f"p{at}", 50, 32)) for at in range(100)]
    assert sum(at_once([functools.partial(passes, cluster, each) for each in asked])) == 4


def test_a_pod_that_is_asked_about_again_claims_once(cluster: MiniCluster) -> None:
    created = claims(cluster, "one")
    for _ in range(3):
        assert passes(cluster, created)
    assert room(cluster)


def test_a_bound_pod_counts_once(cluster: MiniCluster) -> None:
    assert bind(cluster, claims(cluster, "one"), "gpu1") == ""
    assert cluster.service.cache.claims == ()
    assert room(cluster)
    claims(cluster, "two")
    assert not room(cluster)


def test_a_pod_whose_bind_is_refused_claims_nothing(cluster: MiniCluster) -> None:
    created = claims(cluster, "one", 200)
    assert "NodeUnknown" in bind(cluster, created, "gpu9")
    assert room(cluster)


def test_a_pod_that_finds_no_node_when_asked_again_claims_nothing(cluster: MiniCluster) -> None:
    created = claims(cluster, "one", 200)
    assert not filter_nodes(cluster, created, ["gpu9"])["NodeNames"]
    assert room(cluster)


def test_a_pod_that_preemption_is_asked_for_claims_nothing(cluster: MiniCluster) -> None:
    preempt_result(cluster, claims(cluster, "one", 200), {})
    assert room(cluster)


def test_a_refusal_ends_a_claim_unless_it_may_be_an_earlier_one(
    cluster: MiniCluster, clock: Clock
) -> None:
    claims(cluster, "one", 200)
    clock.seconds += REFUSAL_SECONDS
    cluster.sees(cluster.api.edit("pods", "one", unschedulable("an earlier one")))
    assert not room(cluster)
    clock.seconds += 1
    cluster.sees(cluster.api.edit("pods", "one", unschedulable("a later one")))
    assert room(cluster)


def test_a_pod_that_is_refused_at_once_gives_its_claim_up(
    cluster: MiniCluster, clock: Clock
) -> None:
    claims(cluster, "one", 200)
    clock.seconds += 0.1
    cluster.sees(cluster.api.edit("pods", "one", unschedulable("its group doesn't fit")))
    assert not room(cluster)
    clock.seconds += REFUSAL_SECONDS
    assert room(cluster)


def refused_at_once(mini: MiniCluster, clock: Clock) -> dict[str, Any]:
    """A pod that is let pass, refused at once, and asked about again."""
    created = claims(mini, "one", 200)
    clock.seconds += 0.1
    mini.sees(mini.api.edit("pods", "one", unschedulable("its group doesn't fit")))
    clock.seconds += REFUSAL_SECONDS - 1
    assert passes(mini, created)
    return created


def test_a_pod_that_is_refused_at_once_each_time_leaves_others_room(
    cluster: MiniCluster, clock: Clock
) -> None:
    """The scheduler writes the same refusal once only."""
    created = refused_at_once(cluster, clock)
    for _ in range(3):
        clock.seconds += 1
        assert room(cluster)
        assert passes(cluster, created)
        clock.seconds += REFUSAL_SECONDS - 1
        assert not room(cluster)
        assert passes(cluster, created)


def test_a_pod_that_waits_at_last_keeps_its_claim(cluster: MiniCluster, clock: Clock) -> None:
    refused_at_once(cluster, clock)
    nominated = {"status": {"nominatedNodeName": "gpu1"}}
    cluster.sees(cluster.api.edit("pods", "one", nominated))
    clock.seconds += REFUSAL_SECONDS
    assert not room(cluster)


def test_a_pod_that_is_given_up_again_and_again_claims_no_longer(
    cluster: MiniCluster, clock: Clock
) -> None:
    created = claims(cluster, "one", 200)
    for _ in range(3):
        clock.seconds += LONGEST_SECONDS / 4
        assert passes(cluster, created)
        assert not room(cluster)
    clock.seconds += LONGEST_SECONDS / 4
    assert room(cluster)


def test_a_claim_ends_when_no_scheduler_waits_any_more(cluster: MiniCluster, clock: Clock) -> None:
    claims(cluster, "one", 200)
    clock.seconds += LONGEST_SECONDS - 1
    assert not room(cluster)
    clock.seconds += 1
    assert room(cluster)


def test_a_pod_that_begins_to_end_keeps_its_claim(cluster: MiniCluster) -> None:
    claims(cluster, "one", 200)
    cluster.sees(cluster.api.edit("pods", "one", LEAVING))
    assert not room(cluster)


def delete(mini: MiniCluster, asked: dict[str, Any]) -> None:
    mini.api.delete("pods", asked["metadata"]["name"])
    eventually(lambda: mini.service.cache.pod(asked["metadata"]["uid"]) is None)


def test_the_claim_of_a_deleted_pod_ends_after_a_moment(cluster: MiniCluster, clock: Clock) -> None:
    delete(cluster, claims(cluster, "one", 200))
    assert not room(cluster)
    clock.seconds += GONE_SECONDS
    assert room(cluster)


@pytest.mark.parametrize("asks", [100, None])
def test_a_pod_of_the_same_name_keeps_the_claim_of_a_deleted_one(
    cluster: MiniCluster, clock: Clock, asks: int | None
) -> None:
    delete(cluster, claims(cluster, "one", 200))
    cluster.sees(cluster.create(pod("one", asks)))
    clock.seconds += GONE_SECONDS
    assert not room(cluster)
    clock.seconds += NAMED_AGAIN_SECONDS
    assert room(cluster)


def test_a_finished_pod_ends_its_claim_after_a_moment(cluster: MiniCluster, clock: Clock) -> None:
    claims(cluster, "one", 200)
    cluster.sees(cluster.api.edit("pods", "one", {"status": {"phase": "Failed"}}))
    clock.seconds += GONE_SECONDS
    assert room(cluster)


def test_another_quota_counts_the_claims_too(cluster: MiniCluster) -> None:
    claims(cluster, "one", 200)
    limit = NamespaceQuota(cards={"A100": 250})
    cluster.service.cache.set_quota(Quota(namespaces={"default": limit}))
    assert not room(cluster)


def test_a_pod_that_waits_to_be_bound_is_explained(cluster: MiniCluster) -> None:
    claims(cluster, "one", 200)
    said = json.dumps(cluster.call("GET", "/v1/explain/default/one").body)
    assert "counts in its namespace's quota and waits to be bound" in said
    assert "QuotaExceeded" not in said  # its own claim


def test_a_refusal_says_that_a_pod_waits_to_be_bound(cluster: MiniCluster) -> None:
    claims(cluster, "one", 200)
    asked = cluster.create(pod("two", 100))
    assert not passes(cluster, asked)

    def told() -> list[str]:
        events = cluster.api.events()
        return [each["message"] for each in events if each["reason"] == "QuotaExceeded"]

    eventually(lambda: bool(told()))
    words = "holds 2 of its 2 A100 cards (one 2, which waits to be bound)"
    assert words in told()[0]
