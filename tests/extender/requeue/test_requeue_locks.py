"""A look at waiting pods holds the cache's lock for a moment, however many wait."""

from typing import Any

import pytest

from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.pods import PodState
from extender.cache.search_time import HardwareChanges
from extender.requeue.requeue import Requeue
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.request import PodRequest
from tests.extender.cache.metered import MeteredLock
from tests.extender.cache.test_locks import MANY
from tests.extender.states import bound, known, nowhere, view, waiting
from tests.extender.verbs.search_clock import SearchClock
from tests.model.machines import card
from tests.model.machines import pod as asking


def queue_of(seen: Any, kinds: int) -> tuple[Requeue, list[PodState]]:
    """Waiting pods of so many kinds, all refused; only the last one fits on a node."""
    retry = Requeue(writer=None, cache=seen, evaluator=NodeEvaluator(seen))  # type: ignore[arg-type]
    pods = []
    for number in range(kinds):
        each = waiting(f"w{number:04d}", asking((99, 1000 + number)))
        pods.append(each)
    pods.append(waiting("fits", asking((30, 8))))
    for each in pods:
        seen.pod_event("ADDED", each)
        retry.refused(each, nowhere(seen))
    return retry, pods


def odd(number: int) -> PodRequest:
    """What no card has, and no other pod asks."""
    return asking((99, 1000 + number))


def refuse(seen: Any, retry: Requeue, clock: SearchClock, pods: list[PodState]) -> None:
    """Let pods be refused, one after another."""
    for each in pods:
        seen.pod_event("ADDED", each)
        retry.refused(each, nowhere(seen))
        clock.seconds += 0.01


def test_waiting_pods_of_many_kinds_are_looked_at_in_turn(lock: MeteredLock) -> None:
    """Hostile kinds that fit nowhere come first; the pod that fits is woken some looks later."""
    seen = view()
    any_lock: Any = lock
    seen.lock = any_lock
    for at in range(4):
        seen.set_node(known(Node(name=f"n{at}", cards=(card(0),))))
    retry, _ = queue_of(seen, 300)
    looks = [[each.uid for each in retry._look()] for _ in range(6)]
    assert [uid for woken in looks for uid in woken] == ["fits"]
    assert looks[0] == []


def test_an_endless_change_of_request_kinds_blocks_no_pod() -> None:
    """A pod that found no room is looked at again, though new kinds come in every round."""
    seen = view()
    retry = Requeue(writer=None, cache=seen, evaluator=NodeEvaluator(seen))  # type: ignore[arg-type]
    hostile = [waiting(f"w{at:05d}", asking((99, 1000 + at))) for at in range(3000)]
    first, *coming = [waiting("first", asking((30, 8))), *hostile]

    def come(count: int) -> None:
        for _ in range(count):
            seen.pod_event("ADDED", coming[0])
            retry.refused(coming.pop(0), nowhere(seen))

    seen.pod_event("ADDED", first)
    retry.refused(first, nowhere(seen))
    come(200)
    assert retry._look() == []
    seen.set_node(known(Node(name="n0", cards=(card(0),))))
    woken: list[PodState] = []
    while coming and not woken:
        for each in hostile[:100]:
            seen.pod_event("DELETED", each)
        del hostile[:100]
        come(100)
        woken = retry._look()
    assert [each.uid for each in woken] == ["first"]


def test_waiting_pods_that_are_gone_are_forgotten_in_portions(
    lock: MeteredLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of thousands of waiting pods is deleted: they stand in one queue."""
    seen = view()
    any_lock: Any = lock
    seen.lock = any_lock
    retry = Requeue(writer=None, cache=seen, evaluator=NodeEvaluator(seen))  # type: ignore[arg-type]
    pods = [waiting(f"w{number}", asking((30, 8))) for number in range(MANY)]
    for each in pods:
        seen.pod_event("ADDED", each)
        retry.refused(each, nowhere(seen))
    for each in pods:
        seen.pod_event("DELETED", each)
    look_up = seen.pod

    def counted(uid: str) -> PodState | None:
        lock.look()
        return look_up(uid)

    monkeypatch.setattr(seen, "pod", counted)
    assert (retry._look(), len(retry._waiting)) == ([], 0)


def test_many_kinds_of_one_namespace_delay_no_other_namespaces_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each takes longer to search than a look may: the other's pod came after all of them."""
    clock = SearchClock(0.4)
    monkeypatch.setattr("extender.cache.node_evaluator.place", clock.slow(place))
    seen = view(clock=clock)
    retry = Requeue(writer=None, cache=seen, evaluator=NodeEvaluator(seen), clock=clock)  # type: ignore[arg-type]
    for at in range(4):
        cards = tuple(card(minor, uuid=f"n{at}-{minor}") for minor in range(at + 1))
        seen.set_node(known(Node(name=f"n{at}", cards=cards)))
        for _ in cards:
            bound(seen, f"t{len(seen.pods)}", asking((100, 0)), f"n{at}")
    first = seen.pods[0]
    refuse(seen, retry, clock, [waiting(f"w{at}", odd(at), namespace="greedy") for at in range(99)])
    refuse(seen, retry, clock, [waiting("modest", asking((30, 8)), namespace="modest")])
    seen.pod_event("DELETED", first)
    assert ["modest"] in [[each.uid for each in retry._look()] for _ in range(5)]


def test_kinds_that_are_never_searched_to_the_end_come_in_turn() -> None:
    """A node that changes each moment is left out of each look: the first 64 kinds came again."""
    clock = SearchClock()
    seen = view(clock=clock)
    retry = Requeue(writer=None, cache=seen, evaluator=NodeEvaluator(seen), clock=clock)  # type: ignore[arg-type]
    changes = seen.hardware_changes = HardwareChanges(clock, cpu=clock)
    for uuid in ("o1", "o2"):
        seen.set_node(known(Node(name="odd", cards=(card(0, uuid=uuid),))))
    with changes.search("odd", "default"):
        clock.seconds += 5
    refuse(seen, retry, clock, [waiting(f"w{at}", odd(at)) for at in range(300)])
    refuse(seen, retry, clock, [waiting("fits", asking((30, 8)))])
    seen.set_node(known(Node(name="n0", cards=(card(0),))))
    assert ["fits"] in [[each.uid for each in retry._look()] for _ in range(6)]


def test_pods_that_one_after_another_find_no_quota_delay_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first takes what is left of it; each of the others takes long to be placed on a node."""
    clock = SearchClock(0.4)
    seen = view(clock=clock)
    seen.set_quota(Quota(namespaces={"greedy": NamespaceQuota(cards={"P40": 30})}))
    retry = Requeue(writer=None, cache=seen, evaluator=NodeEvaluator(seen), clock=clock)  # type: ignore[arg-type]
    for at in range(99):
        seen.set_node(known(Node(name=f"n{at:02d}", cards=(card(0, uuid=f"n{at}"),))))
    share = asking((30, 8))
    refuse(seen, retry, clock, [waiting(f"w{at}", share, namespace="greedy") for at in range(99)])
    refuse(seen, retry, clock, [waiting("modest", share, namespace="modest")])
    monkeypatch.setattr("gpustack.model.place.place", clock.slow(place))
    began = clock.seconds
    assert [each.uid for each in retry._look()] == ["w0", "modest"]
    assert clock.seconds - began < 3
