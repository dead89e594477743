"""Events between a request and its answer.

The search missed each of these once: a mutant of the extender that it didn't kill, or a defect that
such a mutant led to.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.extender.stateful import pods
from tests.extender.stateful.events.recorded_events import BOTH, CARD, SHARE, arrived, nothing
from tests.extender.stateful.instance import NoAnswer
from tests.extender.stateful.machine import Cluster
from tests.extender.stateful.quotas import FREE


@pytest.mark.parametrize("change", ["choose", "delete", "replace"])
def test_cards_for_a_pod_that_changed_are_not_kept(cluster: Cluster, change: str) -> None:
    """A mutant: a conflict took no cards back, so that an answer without cards left them."""
    cluster.users.change_node("n2", 1, "sick")
    leader, value = cluster.instances[0], arrived(cluster, CARD)
    leader.deliver_all()
    cluster.server.plan = [(0, True, "before", lambda: cluster.users.change(value, change))]
    cluster.schedulers.predicates(leader, value)
    assert not cluster.server.plan
    assert leader.service.cache.reservations == 0
    assert not any(map(pods.text_of, cluster.truth.pods()))


def test_a_decision_too_late_for_its_write_is_not_kept(cluster: Cluster) -> None:
    """A mutant: the read of the API server took all the request's time."""
    leader, value = cluster.instances[0], arrived(cluster, CARD)
    leader.deliver_all()

    def later() -> None:
        cluster.server.clock.seconds += 6

    cluster.server.plan = [(2, False, "after", later)]
    with pytest.raises(NoAnswer, match="no decision within 5 s"):
        leader.predicates(value, cluster.world.nodes)
    assert leader.service.cache.reservations == 0


@pytest.mark.parametrize("verb", ["predicates", "cycle"])
@pytest.mark.parametrize("writes", [False, True])
def test_a_recreated_pod_gets_no_cards_of_the_first_pod(
    cluster: Cluster, verb: str, writes: bool
) -> None:
    """A mutant: a read took any pod of the name."""
    leader, value = cluster.instances[0], arrived(cluster, CARD)
    leader.deliver_all()
    cluster.server.plan = [(0, writes, "before", lambda: cluster.users.change(value, "replace"))]
    ask = cluster.schedulers.predicates if verb == "predicates" else cluster.schedulers.cycle
    ask(leader, value)
    ask(leader, value)
    (fresh,) = cluster.truth.pods()
    assert pods.uid(fresh) != pods.uid(value)
    assert not pods.text_of(fresh)
    assert not pods.bound(fresh)
    assert leader.service.cache.reservations == 0
    ask(leader, fresh)
    assert pods.text_of(cluster.truth.pods()[0])


def test_a_recreated_pod_keeps_the_cards_from_a_rival(
    cluster: Cluster,
) -> None:
    """Found by the search: the answer was thrown away, because it was another pod's."""
    leader, rival = cluster.instances
    value, other = arrived(cluster, CARD), arrived(cluster, SHARE)
    leader.deliver_all()
    assert leader.predicates(other, ["n2"])
    leader.deliver_all()  # from now on it decides without a read
    cluster.users.change(value, "replace")
    fresh = next(each for each in cluster.truth.pods() if pods.key(each) == pods.key(value))
    rival.bind(fresh, "n1")
    with pytest.raises(NoAnswer, match="gone"):
        leader.predicates(value, ["n1"])
    assert leader.predicates(arrived(cluster, CARD), ["n1"]) == []
    cluster.nothing_was_given_twice()


def test_a_pod_that_is_gone_before_its_binding_is_forgotten_at_once(cluster: Cluster) -> None:
    leader, value = cluster.instances[0], arrived(cluster, CARD)
    leader.deliver_all()
    cluster.server.plan = [(0, True, "before", lambda: cluster.users.change(value, "delete"))]
    with pytest.raises(NoAnswer, match="is gone"):
        leader.bind(value, "n1")
    assert leader.service.cache.pod(pods.uid(value)) is None


def test_the_watch_settles_a_conflict_without_a_read(
    cluster: Cluster,
) -> None:
    """Cards were reserved for a quarter of an hour, though the pod had none."""
    leader, value = cluster.instances[0], arrived(cluster, CARD)
    leader.deliver_all()
    cluster.server.plan = [
        (0, True, "before", lambda: cluster.users.change(value, "label")),
        (0, False, "403", nothing),
    ]
    cluster.schedulers.predicates(leader, value)
    assert leader.service.cache.reservations == 1
    leader.deliver_all()
    assert leader.service.cache.reservations == 0


@pytest.mark.parametrize(("seconds", "due"), [(9.0, False), (11.0, True)])
@pytest.mark.parametrize("last", ["predicates", "bind", "look"])
def test_an_instance_rests_on_its_watch_for_ten_seconds(
    cluster: Cluster, last: str, seconds: float, due: bool
) -> None:
    leader, value = cluster.instances[0], arrived(cluster, CARD)
    leader.deliver_all()

    def slowly() -> None:
        cluster.server.clock.seconds += 2

    cluster.server.plan = [(2, False, "after", slowly)]
    if last == "look":
        cluster.server.plan.append((0, True, "403", nothing))
    if last == "bind":
        leader.bind(value, "n1")
    else:
        cluster.schedulers.predicates(leader, value)
    leader.deliver_all()
    cluster.server.clock.seconds += seconds - (2 if last == "look" else 0)
    assert leader.service._consistent_read.due("n1", FREE) is due


def test_a_busy_instance_repeats_a_read_that_failed(
    cluster: Cluster,
) -> None:
    """A mutant: a read counted before it was made."""
    leader, rival = cluster.instances
    theirs, first, value = (arrived(cluster, CARD) for _ in range(3))
    for each in cluster.instances:
        each.deliver_all()
    rival.bind(theirs, "n2")
    leader.bind(first, "n1")
    held = rival.service.cache.placement(pods.uid(theirs))
    assert held is not None
    cluster.users.change_node("n2", 1 - held.containers[0].minors[0], "sick")
    for calls_before in (0, 1):  # the node, then its pods
        cluster.server.plan = [(calls_before, False, "403", nothing)]
        with pytest.raises(NoAnswer, match="403"):
            leader.bind(value, "n2")
        assert not cluster.server.plan
    with pytest.raises(NoAnswer, match="does not fit"):
        leader.bind(value, "n2")


def test_a_read_that_failed_blocks_no_other_read(cluster: Cluster) -> None:
    leader, value = cluster.instances[0], arrived(cluster, CARD)
    leader.deliver_all()
    cluster.server.plan = [(1, False, "403", nothing)]
    with pytest.raises(NoAnswer, match="403"):
        leader.predicates(value, cluster.world.nodes)
    with ThreadPoolExecutor(1) as another:
        asking = another.submit(leader.predicates, value, cluster.world.nodes)
        assert asking.result()


def test_an_expired_reservation_is_free_for_the_next_request(cluster: Cluster) -> None:
    """The next request doesn't wait for the regular look at the clock."""
    cluster.users.change_node("n1", 0, "gone")
    leader = cluster.instances[0]
    first, second = arrived(cluster, BOTH), arrived(cluster, BOTH)
    leader.deliver_all()
    assert leader.predicates(first, cluster.world.nodes)
    leader.deliver_all()
    cluster.server.clock.seconds += 901
    assert leader.predicates(second, cluster.world.nodes) == ["n2"]


def test_no_thread_sees_the_room_between_check_and_reservation(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that race for it hardly ever meet there, so the test looks at the lock itself."""
    leader, value = cluster.instances[0], arrived(cluster, CARD)
    answers, view = leader.service.evaluator, leader.service.cache
    seen: list[tuple[str, bool]] = []

    def noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*asked: Any) -> Any:
            seen.append((name, leader.caller.locked()))
            return call(*asked)

        return noting

    for owner, name in ((answers, "of"), (answers, "holds"), (view, "assume")):
        monkeypatch.setattr(owner, name, noted(name, getattr(owner, name)))
    assert leader.predicates(value, cluster.world.nodes)
    assert {("of", False), ("holds", True), ("assume", True)} == set(seen)


@pytest.mark.parametrize("verb", ["predicates", "bind"])
def test_a_card_that_is_taken_during_the_search_is_not_given_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Another pod gets the whole node between the search and the decision."""
    leader = cluster.instances[0]
    first, second = arrived(cluster, BOTH), arrived(cluster, BOTH)
    leader.deliver_all()
    answers_of = leader.service.evaluator.of

    def overtaken(*asked: Any) -> Any:
        said = answers_of(*asked)
        monkeypatch.setattr(leader.service.evaluator, "of", answers_of)
        assert leader.predicates(second, ["n2"]) == ["n2"]
        return said

    monkeypatch.setattr(leader.service.evaluator, "of", overtaken)
    if verb == "bind":
        with pytest.raises(NoAnswer, match="does not fit on node n2 any more"):
            leader.bind(first, "n2")
    else:
        assert leader.predicates(first, ["n2"]) == []
    held = [leader.service.cache.placement(each["metadata"]["uid"]) for each in (first, second)]
    assert held[0] is None
    assert held[1] is not None
