"""A pod that has long to end may run on for ever: preemption waits for none where others help."""

from typing import Any

import pytest

from tests.extender.calls import bound, preempt
from tests.extender.mini_cluster import MiniCluster, pod

HIGH = 1000
YEARS = 3_155_760_000  # seconds: a hundred years


def vip(mini: MiniCluster, *asks: object) -> dict[str, Any]:
    """A waiting pod of high priority."""
    return mini.create(pod("vip", *asks, priority=HIGH))


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
