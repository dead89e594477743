"""Faults that the search has found, each as its shortest story."""

import pytest

from tests.extender.stateful.events.ops import Planned
from tests.extender.stateful.events.recorded_events import BOTH, CARD, SHARE, arrived, is_bound
from tests.extender.stateful.machine import Cluster
from tests.extender.stateful.quotas import LIMITED, quota


@pytest.mark.parametrize("calls_before", range(4))
def test_a_node_whose_read_failed_is_read_before_the_next_decision(
    cluster: Cluster, calls_before: int
) -> None:
    """The read of the node's pods counted as a read of the node; a card had failed meanwhile."""
    arrived(cluster, SHARE)
    cluster.users.change_node("n1", 0, "sick")
    cluster.users.change_node("n2", 0, "sick")
    cluster.stories.schedule(
        [("predicates", 0, 0, 0)], [(calls_before, False, "silent", "deliver", 0)]
    )
    cluster.stories.schedule([("predicates", 0, 0, 0)], [])
    cluster.nothing_was_given_twice()
    assert cluster.world.decisions.count


def test_a_node_is_read_while_the_watch_of_pods_is_ahead(
    cluster: Cluster,
) -> None:
    """The version of the watch of pods counted for the nodes as well."""
    first, second = arrived(cluster, CARD), arrived(cluster, SHARE)
    leader = cluster.instances[0]
    for card in (0, 1):
        cluster.users.change_node("n2", card, "sick")
    leader.deliver("pods", 9, bookmark=True)
    cluster.schedulers.predicates(leader, first)
    cluster.schedulers.predicates(leader, second)
    cluster.nothing_was_given_twice()


def test_a_pod_that_is_refused_after_a_read_keeps_nothing(
    cluster: Cluster,
) -> None:
    """The reservation from before the read stayed for a quarter of an hour."""
    leader, idle = cluster.instances
    cluster.schedulers.cycle(leader, arrived(cluster, SHARE), 1)
    cluster.users.change_node("n1", 0, "gone")
    cluster.schedulers.predicates(idle, arrived(cluster, BOTH))
    assert idle.service.cache.reservations == 0


@pytest.mark.parametrize("model", ["A100", "A40"])
def test_a_pod_is_woken_for_cards_of_the_model_that_its_quota_has_left(
    cluster: Cluster, model: str
) -> None:
    """The look for room tried the first cards of a node only, and those the quota forbade."""
    cluster.users.set_quota(quota({model: 1}))
    cluster.users.change_node("n1", 0, "gone")
    leader = cluster.instances[0]
    leader.deliver_all()
    others = [arrived(cluster, CARD), arrived(cluster, CARD)]
    for each in others:
        cluster.schedulers.cycle(leader, each)
    waits = arrived(cluster, CARD, LIMITED)
    cluster.schedulers.cycle(leader, waits)
    cluster.settle((), [0, 1])
    assert is_bound(cluster, waits)


def test_a_refused_pod_with_an_old_reservation_is_woken(
    cluster: Cluster,
) -> None:
    """The first look for room forgot the pod, because it still had the failed cards."""
    cluster.users.change_node("n2", 0, "gone")
    leader = cluster.instances[0]
    leader.deliver_all()
    waits = arrived(cluster, SHARE)
    cluster.schedulers.predicates(leader, waits)
    cluster.users.change_node("n1", 0, "sick")
    cluster.advance(40)
    leader.deliver("nodes", 9, bookmark=True)
    cluster.schedulers.predicates(leader, waits)
    cluster.wake(0, [])
    leader.deliver_all()
    cluster.users.change_node("n1", 0, "well")
    cluster.settle((), [])
    assert is_bound(cluster, waits)


def test_two_lost_bindings_give_a_pod_no_cards_of_another(
    cluster: Cluster,
) -> None:
    """Only the second binding was remembered, and the first one took effect."""
    leader = cluster.instances[0]
    lost: list[Planned] = [
        (0, True, "late", "later", 0),
        (0, False, "silent", "later", 0),
        (0, False, "silent", "later", 0),
    ]
    value = arrived(cluster, CARD)
    for where in (0, 1):
        with cluster.stories.planned(lost):
            cluster.schedulers.cycle(leader, value, where)
    cluster.stories.land(0)
    for _ in range(2):
        cluster.schedulers.cycle(leader, arrived(cluster, CARD))
    cluster.nothing_was_given_twice()


def test_a_decision_that_returns_to_force_keeps_its_age(cluster: Cluster) -> None:
    """Its age was forgotten during a later decision, whose write never took effect."""
    leader = cluster.instances[0]
    value = arrived(cluster, SHARE)
    cluster.schedulers.predicates(leader, value)
    leader.deliver_all()
    cluster.advance(6)
    with cluster.stories.planned([(0, True, "silent", "later", 0)]):
        cluster.schedulers.predicates(leader, value)
    for _ in range(9):
        cluster.advance(105)
        leader.deliver_all()
    cluster.schedulers.predicates(leader, arrived(cluster, BOTH))
    assert leader.service.cache.reservations == 1
