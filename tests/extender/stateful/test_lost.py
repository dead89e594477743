"""Lost answers of bindings, and earlier annotations of their pods: no card is given twice.

As in ``test_meanwhile``, mutants of the extender led here.
"""

import pytest

from tests.extender.stateful import pods
from tests.extender.stateful.events.recorded_events import (
    BOTH,
    CARD,
    Happens,
    arrived,
    is_bound,
    nothing,
    refused,
)
from tests.extender.stateful.instance import NoAnswer
from tests.extender.stateful.machine import Cluster
from tests.extender.stateful.quotas import LIMITED, quota
from tests.fakes import kube_rules
from tests.fakes.kube_store import KubeObject


def bare_binding(cluster: Cluster, value: KubeObject, node: str) -> None:
    """Another client binds a pod, without any cards."""
    cluster.server.store.update(
        pods.key(value), lambda old: kube_rules.bound(old, {"target": {"name": node}})
    )


@pytest.mark.parametrize("which", [1, 3])  # 3: of a container that doesn't exist
def test_card_annotations_of_a_user_do_not_hide_a_binding(cluster: Cluster, which: int) -> None:
    """After a forged card was removed the rest was a decision, and newer than the extender's."""
    cluster.users.change_node("n1", 0, "gone")
    leader = cluster.instances[0]
    first, forged, other = (arrived(cluster, CARD) for _ in range(3))
    cluster.users.change(forged, "forge", which)
    leader.deliver_all()
    cluster.schedulers.cycle(leader, first)
    plan: Happens = (
        which // 3,
        True,
        "before",
        lambda: cluster.schedulers.cycle(leader, other),
    )
    cluster.server.plan = [plan]
    cluster.schedulers.cycle(leader, forged)
    assert not cluster.server.plan
    cluster.nothing_was_given_twice()
    assert is_bound(cluster, forged)
    assert not is_bound(cluster, other)


def test_a_late_removal_of_forged_cards_removes_no_decision(
    cluster: Cluster,
) -> None:
    """The removal names the version that it was made for, as every harmful write does."""
    leader, value = cluster.instances[0], arrived(cluster, CARD)
    cluster.users.change(value, "forge", 3)
    leader.deliver_all()
    cluster.server.plan = [(0, True, "late", nothing)]
    for _ in range(2):
        cluster.schedulers.cycle(leader, value)
    assert is_bound(cluster, value)
    cluster.stories.land_all()
    there = cluster.truth.pod(pods.uid(value))
    assert there is not None
    assert pods.cards(there)


@pytest.mark.parametrize("what", ["silent", "cut", "504 after", "409", "403"])
def test_a_failed_removal_of_forged_cards_reserves_nothing(cluster: Cluster, what: str) -> None:
    """It was taken for a binding without an answer, which may still take effect."""
    leader, value = cluster.instances[0], arrived(cluster, CARD)
    cluster.users.change(value, "forge", 3)
    leader.deliver_all()
    cluster.server.plan = [(0, True, what, nothing), *[(0, False, "403", nothing)] * 3]
    refused(leader, value, "n2", "API server|no answer|reset")
    cluster.server.plan = []
    leader.bind(value, "n2")
    assert is_bound(cluster, value)


def test_a_pod_that_a_rival_binds_during_a_read_is_bound(cluster: Cluster) -> None:
    """The answer was an error: the choice of cards met the binding that the read showed."""
    leader, rival = cluster.instances
    value = arrived(cluster, CARD)
    for each in cluster.instances:
        each.deliver_all()
    cluster.server.plan = [(0, False, "before", lambda: rival.bind(value, "n2"))]
    leader.bind(value, "n2")
    assert is_bound(cluster, value)
    cluster.nothing_was_given_twice()


def lost(*meanwhile: Happens) -> list[Happens]:
    """A binding without an answer, a refused read, and then these events."""
    return [(0, True, "cut", nothing), (0, False, "403", nothing), *meanwhile]


def test_a_pod_bound_without_cards_after_a_lost_binding_keeps_none(
    cluster: Cluster,
) -> None:
    """The pod kept its cards until its deletion: a bound pod has no reservation to end."""
    leader, value = cluster.instances[0], arrived(cluster, CARD)
    leader.deliver_all()
    leader.service._consistent_read.wrote()
    cluster.server.plan = lost((0, True, "before", lambda: bare_binding(cluster, value, "n2")))
    refused(leader, value, "n2", "by another writer, without cards")


def test_a_pod_that_a_rival_bound_after_a_lost_binding_is_an_error(
    cluster: Cluster,
) -> None:
    """A mutant: any decision on the pod counted as the extender's own after the last binding."""
    leader, rival = cluster.instances
    value = arrived(cluster, CARD)
    for each in cluster.instances:
        each.deliver_all()
        each.service._consistent_read.wrote()
    cluster.server.plan = lost((0, True, "before", lambda: rival.bind(value, "n1")))
    with pytest.raises(NoAnswer, match="runs on node n1 already"):
        leader.bind(value, "n2")
    held = leader.service.cache.placement(pods.uid(value))
    assert held is not None
    assert held.node == "n1"


def test_a_lost_binding_after_a_removal_is_ruled_out_first(
    cluster: Cluster,
) -> None:
    """The binding names a later version than its choice, and so it counted as harmless."""
    leader = cluster.instances[0]
    value, other = (arrived(cluster, CARD) for _ in range(2))
    cluster.users.change_node("n2", 1, "sick")
    cluster.users.change(value, "forge", 3)
    leader.deliver_all()
    silent: list[Happens] = [(0, False, "silent", nothing)] * 2
    cluster.server.plan = [(1, True, "late", nothing), *silent]
    with pytest.raises(NoAnswer):
        leader.bind(value, "n2")

    def another_comes_first() -> None:
        cluster.server.plan = []
        with pytest.raises(NoAnswer):
            leader.bind(other, "n2")
        cluster.stories.land_all()

    cluster.server.plan = [(0, True, "before", another_comes_first)]
    with pytest.raises(NoAnswer, match="runs on node n2 already"):
        leader.bind(value, "n1")
    cluster.nothing_was_given_twice()
    assert is_bound(cluster, value)


def test_a_pod_that_changed_after_a_lost_write_keeps_nothing(cluster: Cluster) -> None:
    """Cards whose write can't take effect any more were reserved for a quarter of an hour."""
    leader, value = cluster.instances[0], arrived(cluster, CARD)
    leader.deliver_all()
    cluster.server.plan = [(0, True, "silent", nothing)]
    cluster.schedulers.predicates(leader, value)
    assert leader.service.cache.reservations == 1
    cluster.users.change(value, "label")
    leader.deliver_all()
    assert leader.service.cache.reservations == 0


def test_a_pod_that_is_refused_after_a_lost_write_keeps_nothing(cluster: Cluster) -> None:
    """The pod kept its earlier promise, though those cards didn't fit it any more."""
    cluster.users.change_node("n1", 0, "gone")
    leader, value = cluster.instances[0], arrived(cluster, BOTH)
    leader.deliver_all()
    cluster.server.plan = [(0, True, "silent", nothing)]
    cluster.schedulers.predicates(leader, value)
    cluster.users.change_node("n2", 0, "sick")
    leader.deliver_all()
    cluster.schedulers.predicates(leader, value)
    assert leader.service.cache.reservations == 0


def test_a_pod_deleted_during_the_check_of_a_binding_keeps_nothing(
    cluster: Cluster,
) -> None:
    """A mutant: a 404 of the pod counted as no answer."""
    leader, value = cluster.instances[0], arrived(cluster, CARD)
    leader.deliver_all()
    leader.service._consistent_read.wrote()
    cluster.server.plan = lost((0, True, "before", lambda: cluster.users.change(value, "delete")))
    refused(leader, value, "n2", "403")


def test_a_lost_binding_is_ruled_out_before_another_choice(
    cluster: Cluster,
) -> None:
    """The next try was made while the first could still take effect, and its cards were free."""
    leader = cluster.instances[0]
    cluster.users.change_node("n1", 0, "gone")
    value, other = arrived(cluster, CARD, LIMITED), arrived(cluster, CARD)
    cluster.users.set_quota(quota({"NVIDIA": 1}))
    leader.deliver_all()
    leader.service._consistent_read.wrote()

    def forbidden_now() -> None:
        cluster.users.set_quota(quota({"A40": 1}))
        leader.deliver("quota", 9, bookmark=True)

    def another_comes_first() -> None:
        cluster.server.plan = []
        leader.bind(other, "n2")
        cluster.stories.land_all()

    held = (0, False, "after", forbidden_now)  # the read after the first try
    cluster.server.plan = [(0, True, "late", nothing), held]
    cluster.server.plan.append((0, True, "before", another_comes_first))
    leader.bind(value, "n2")
    cluster.nothing_was_given_twice()


@pytest.mark.parametrize("what", ["cut", "504"])
@pytest.mark.parametrize("fence", ["403", "silent"])
def test_a_binding_that_may_still_take_effect_keeps_its_cards(
    cluster: Cluster, what: str, fence: str
) -> None:
    leader, value = cluster.instances[0], arrived(cluster, CARD)
    leader.deliver_all()
    leader.service._consistent_read.wrote()
    cluster.server.plan = [
        (0, True, what, nothing),
        (0, False, "403", nothing),
        (0, True, fence, nothing),
    ]
    with pytest.raises(NoAnswer, match="403"):
        leader.bind(value, "n2")
    assert not cluster.server.plan
    assert leader.service.cache.placement(pods.uid(value)) is not None
    leader.bind(value, "n1")  # once the first binding is ruled out
    assert is_bound(cluster, value)


@pytest.mark.parametrize("what", ["cut after", "silent", "late", "504", "504 after", "429"])
def test_a_decision_that_may_still_be_written_keeps_its_cards(cluster: Cluster, what: str) -> None:
    leader, value = cluster.instances[0], arrived(cluster, CARD)
    leader.deliver_all()
    cluster.server.plan = [(0, True, what, nothing), (0, True, what, nothing)]
    with pytest.raises(NoAnswer):
        leader.predicates(value, cluster.world.nodes)
    cluster.server.plan = []
    assert leader.service.cache.placement(pods.uid(value)) is not None
    assert leader.predicates(value, cluster.world.nodes)
