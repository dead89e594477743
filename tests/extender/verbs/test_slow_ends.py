"""A pod that has long to end may run on for ever: preemption waits for none where others help."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.extender.calls import bound, filter_nodes, preempt
from tests.extender.mini_cluster import MiniCluster, node, pod, serving
from tests.extender.verbs.search_clock import SearchClock
from tests.fakes.kube_api import FakeKubeApi

HIGH = 1000
YEARS = 3_155_760_000  # seconds: a hundred years
PATIENCE_SECONDS = 600.0


def vip(mini: MiniCluster, *asks: object, nominated: str = "") -> dict[str, Any]:
    """A waiting pod of high priority."""
    value = pod("vip", *asks, priority=HIGH)
    value["status"]["nominatedNodeName"] = nominated
    return mini.sees(mini.create(value))


def end_late(mini: MiniCluster, name: str) -> None:
    """Let a pod begin to end with a grace period of a hundred years."""
    metadata = {
        "deletionTimestamp": "2126-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": YEARS,
    }
    mini.sees(mini.api.edit("pods", name, {"metadata": metadata}))


@pytest.mark.parametrize("priority", [0, HIGH])
def test_an_ending_without_an_end_keeps_no_room_from_others(
    mini: MiniCluster, priority: int
) -> None:
    bound(mini, "endless", "gpu1", 100, None, priority=priority)
    bound(mini, "low", "gpu1", 100)
    end_late(mini, "endless")
    assert preempt(mini, vip(mini, 100), {"gpu1": ["low"]}) == {"gpu1": ["low"]}


def test_an_ending_without_an_end_is_named_where_no_others_help(mini: MiniCluster) -> None:
    bound(mini, "endless", "gpu1", 100)
    bound(mini, "low", "gpu1", 100)
    end_late(mini, "endless")
    found = preempt(mini, vip(mini, 200), {"gpu1": ["low"]})
    assert set(found["gpu1"]) == {"low", "endless"}


def rude(mini: MiniCluster, name: str, node: str, *asks: object) -> None:
    """A bound pod of the lowest priority that takes a hundred years to end, once it is told to."""
    bound(mini, name, node, *asks, None, priority=-10, terminationGracePeriodSeconds=YEARS)


def test_a_pod_that_would_end_late_is_named_where_no_others_help(mini: MiniCluster) -> None:
    rude(mini, "rude", "gpu1", 100)
    bound(mini, "low", "gpu1", 100)
    asked = vip(mini, 100)
    assert preempt(mini, asked, {"gpu1": ["rude"]}) == {"gpu1": ["low"]}
    bound(mini, "high", "gpu2", 100, None, priority=HIGH)
    rude(mini, "other", "gpu2", 100)
    assert preempt(mini, asked, {"gpu2": ["other"]}) == {"gpu2": ["other"]}


def test_a_node_whose_pods_would_end_late_is_left_out_beside_another(mini: MiniCluster) -> None:
    rude(mini, "rude", "gpu1", 200)
    bound(mini, "low", "gpu2", 200)
    asked = vip(mini, 100)
    proposed = {"gpu1": ["rude"], "gpu2": ["low"]}
    assert preempt(mini, asked, proposed) == {"gpu2": ["low"]}
    end_late(mini, "rude")
    assert preempt(mini, asked, proposed) == {"gpu2": ["low"]}


def test_a_nominated_pod_waits_for_no_ending_without_an_end(mini: MiniCluster) -> None:
    bound(mini, "endless", "gpu1", 200)
    asked = vip(mini, 100, nominated="gpu1")
    end_late(mini, "endless")
    result = filter_nodes(mini, asked, ["gpu1"])
    # The scheduler looks for victims on other nodes, once the nominated one is beyond help.
    assert result["FailedNodes"] == {}
    assert set(result["FailedAndUnresolvableNodes"]) == {"gpu1"}


def test_an_ending_without_an_end_opens_no_nominated_card_to_others(mini: MiniCluster) -> None:
    bound(mini, "endless", "gpu1", 100)
    end_late(mini, "endless")
    vip(mini, 100, nominated="gpu1")
    low = mini.create(pod("low", 50, 32))
    assert filter_nodes(mini, low, ["gpu1"])["NodeNames"] == []


@pytest.fixture
def clock() -> SearchClock:
    return SearchClock()


@pytest.fixture
def ageing(api: FakeKubeApi, tmp_path: Path, clock: SearchClock) -> Iterator[MiniCluster]:
    """A ready extender of gpu1 and gpu2, whose clock stands still until a test moves it."""
    for name in ("gpu1", "gpu2"):
        api.create("nodes", node(name))
    with serving(api, tmp_path, clock=clock, stale_seconds=1e6) as made:
        yield made


def end(mini: MiniCluster, name: str) -> None:
    """Let a pod begin to end with the usual grace."""
    mini.sees(mini.end(name))


def test_a_pod_that_has_not_ended_in_ten_minutes_keeps_no_room(
    ageing: MiniCluster, clock: SearchClock
) -> None:
    bound(ageing, "stuck", "gpu1", 100)
    bound(ageing, "low", "gpu1", 100)
    asked = vip(ageing, 100)
    end(ageing, "stuck")
    clock.seconds += PATIENCE_SECONDS - 1
    assert preempt(ageing, asked, {"gpu1": ["low"]}) == {"gpu1": ["stuck"]}
    ageing.sees(ageing.api.edit("pods", "stuck", {"metadata": {"labels": {"still": "here"}}}))
    clock.seconds += 1
    assert preempt(ageing, asked, {"gpu1": ["low"]}) == {"gpu1": ["low"]}


def test_a_node_whose_pods_do_not_end_is_left_out_beside_another(
    ageing: MiniCluster, clock: SearchClock
) -> None:
    bound(ageing, "stuck", "gpu1", 200)
    bound(ageing, "low", "gpu2", 200)
    asked = vip(ageing, 100)
    end(ageing, "stuck")
    clock.seconds += PATIENCE_SECONDS
    proposed = {"gpu1": ["stuck"], "gpu2": ["low"]}
    assert preempt(ageing, asked, proposed) == {"gpu2": ["low"]}
    assert preempt(ageing, asked, {"gpu1": ["stuck"]}) == {"gpu1": ["stuck"]}


def test_a_nominated_pod_waits_ten_minutes_for_an_ending(
    ageing: MiniCluster, clock: SearchClock
) -> None:
    bound(ageing, "stuck", "gpu1", 200)
    asked = vip(ageing, 100, nominated="gpu1")
    end(ageing, "stuck")
    assert set(filter_nodes(ageing, asked, ["gpu1"])["FailedNodes"]) == {"gpu1"}
    clock.seconds += PATIENCE_SECONDS
    result = filter_nodes(ageing, asked, ["gpu1"])
    assert result["FailedNodes"] == {}
    assert set(result["FailedAndUnresolvableNodes"]) == {"gpu1"}


def test_a_pod_as_important_that_does_not_end_is_not_waited_for(
    ageing: MiniCluster, clock: SearchClock
) -> None:
    bound(ageing, "stuck", "gpu1", 100, None, priority=HIGH)
    bound(ageing, "low", "gpu1", 100)
    asked = vip(ageing, 100)
    end(ageing, "stuck")
    assert preempt(ageing, asked, {"gpu1": ["low"]}) == {}
    clock.seconds += PATIENCE_SECONDS
    assert preempt(ageing, asked, {"gpu1": ["low"]}) == {"gpu1": ["low"]}
