"""Room wakes refused pods, in rounds."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.pods import PodState
from extender.requeue.requeue import Requeue
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.request import PodRequest
from tests.extender.states import bound, known, nowhere, view, waiting
from tests.model.machines import card, pod

CARD = pod((100, 0))
HALF = pod((50, 32))


class Queue:
    """A cluster of full nodes, the pods that it refused, and a clock that a test moves."""

    def __init__(self, nodes: int = 1, cards: int = 1) -> None:
        self.seconds = 1000.0
        self.refuses_all = False
        self.view: ClusterCache = view(clock=self.clock)
        self.retry = Requeue(
            writer=None,  # type: ignore[arg-type]  # a look writes nothing
            cache=self.view,
            evaluator=NodeEvaluator(self.view),
            refuses_all=lambda: self.refuses_all,
            clock=self.clock,
        )
        for number in range(nodes):
            made = tuple(card(minor, uuid=f"n{number}-{minor}") for minor in range(cards))
            base = Node(name=f"n{number}", cards=made)
            self.view.set_node(known(base))
            for _ in range(cards):
                bound(self.view, f"t{len(self.view.pods)}", CARD, base.name)

    def clock(self) -> float:
        return self.seconds

    def refuse(self, uid: str, request: PodRequest = CARD, **fields: Any) -> PodState:
        made = waiting(uid, request, **fields)
        self.view.pod_event("ADDED", made)
        self.retry.refused(made, nowhere(self.view))
        self.seconds += 0.01
        return made

    def refuse_all(self, *uids: str, request: PodRequest = CARD, **fields: Any) -> None:
        for uid in uids:
            self.refuse(uid, request, **fields)

    def end(self, *uids: str) -> None:
        for uid in uids:
            pod = self.view.pod(uid)
            assert pod is not None
            self.view.pod_event("DELETED", pod)

    def woken(self) -> list[str]:
        return [each.uid for each in self.retry._look()]

    def take(self, uid: str) -> None:
        """Ask for the woken pod as the scheduler does, and reserve its cards."""
        pod = self.view.pod(uid)
        assert pod is not None
        best = self.retry._evaluator.of(pod, tuple(self.view.node_names)).best()
        assert best is not None
        with self.view.lock:
            self.view.assume(uid, self.retry._evaluator.placement(pod, *best))
            self.retry.settled(uid)


def test_no_pod_is_woken_without_room() -> None:
    queue = Queue()
    queue.refuse("a")
    assert queue.woken() == []


def test_one_card_wakes_one_pod() -> None:
    queue = Queue()
    queue.refuse_all("a", "b", "c")
    queue.end("t0")
    assert queue.woken() == ["a"]
    assert queue.woken() == []


def test_two_halves_fit_on_the_card_that_became_free() -> None:
    queue = Queue()
    queue.refuse_all("a", "b", "c", request=HALF)
    queue.end("t0")
    assert queue.woken() == ["a", "b"]


def test_taken_room_wakes_no_pod() -> None:
    queue = Queue()
    queue.refuse_all("a", "b")
    queue.end("t0")
    assert queue.woken() == ["a"]
    queue.take("a")
    queue.seconds += 10
    assert queue.woken() == []
    assert len(queue.retry._waiting) == 1


def test_a_refused_pod_that_holds_cards_is_woken_after_they_end() -> None:
    queue = Queue()
    queue.refuse("a")
    queue.end("t0")
    free = queue.view.node("n0")
    assert free is not None
    held = place(free, CARD)
    assert isinstance(held, Placement)
    time_ns = queue.view.assume("a", held)
    assert queue.woken() == []
    queue.view.forget("a", time_ns)
    assert queue.woken() == ["a"]


def test_refused_pods_that_hold_cards_block_no_other_pod() -> None:
    """The requeue looked at the first forty pods of a queue only."""
    queue = Queue(nodes=51)
    holding = [f"old{number}" for number in range(50)]
    queue.refuse_all(*holding, "new")
    for number, uid in enumerate(holding):
        queue.end(f"t{number}")
        free = queue.view.node(f"n{number}")
        assert free is not None
        held = place(free, CARD)
        assert isinstance(held, Placement)
        queue.view.assume(uid, held)
    assert queue.woken() == []
    queue.end("t50")
    assert queue.woken() == ["new"]


def test_room_that_the_first_leaves_wakes_the_next_within_5_seconds() -> None:
    queue = Queue()
    queue.refuse_all("a", "b")
    queue.end("t0")
    assert queue.woken() == ["a"]
    queue.seconds += 1
    assert queue.woken() == []
    queue.seconds += 1.5
    assert queue.woken() == ["b"]


def test_an_instance_that_refuses_all_pods_wakes_none() -> None:
    queue = Queue()
    queue.refuse("a")
    queue.end("t0")
    queue.refuses_all = True
    assert queue.woken() == []
    queue.refuses_all = False
    assert queue.woken() == ["a"]


def test_pods_are_woken_by_priority_and_then_by_waiting_time() -> None:
    queue = Queue(cards=3)
    queue.refuse("old")
    queue.refuse("young", HALF)
    queue.refuse("high", CARD, priority=5)
    queue.end("t0", "t1", "t2")
    assert queue.woken() == ["high", "old", "young"]


def test_pods_that_do_not_fit_block_no_fitting_pod() -> None:
    queue = Queue(cards=2)
    queue.refuse("two", pod((200, 0)), priority=9)
    queue.refuse("half", HALF)
    queue.end("t0")
    assert queue.woken() == ["half"]


def test_a_pod_with_a_new_request_leaves_its_old_group() -> None:
    """The pod was its group's first, found no room, and blocked the others for ever."""
    queue = Queue(cards=2)
    first = queue.refuse("first")
    queue.refuse("second")
    now = waiting("first", pod((200, 0)))
    queue.view.pod_event("MODIFIED", replace(now, version=first.version + 1000))
    queue.end("t0")
    assert queue.woken() == ["second"]
    queue.end("second", "t1")
    assert queue.woken() == ["first"]


def test_a_pod_that_is_gone_bound_or_gated_is_not_woken() -> None:
    queue = Queue()
    gone, elsewhere, gated = (queue.refuse(uid) for uid in ("gone", "elsewhere", "gated"))
    queue.view.pod_event("DELETED", gone)
    later = elsewhere.version + 1000
    queue.view.pod_event("MODIFIED", replace(elsewhere, node="n9", version=later))
    queue.view.pod_event("MODIFIED", replace(gated, gated=True, version=later))
    queue.end("t0")
    assert queue.woken() == []
    assert len(queue.retry._waiting) == 0


def test_a_pod_that_is_refused_again_is_woken_less_often() -> None:
    queue = Queue()
    asked = queue.refuse("tainted")
    queue.end("t0")
    moments = []
    for _ in range(4000):
        if queue.woken():
            moments.append(queue.seconds)
            queue.retry.refused(asked, nowhere(queue.view))
        queue.seconds += 0.5
    pauses = [round(b - a) for a, b in itertools.pairwise(moments)]
    assert pauses[:7] == [4, 8, 16, 32, 64, 128, 256]
    assert set(pauses[7:]) == {300}


def test_pods_that_take_no_room_stand_before_no_other_namespaces() -> None:
    """A hundred pods of one tenant that may go to a full node alone, and one of another's."""
    queue = Queue()
    asked = {f"b{at}": queue.refuse(f"b{at}", namespace="pinned") for at in range(100)}
    queue.refuse("good")
    queue.end("t0")
    began = queue.seconds
    while "good" not in (woken := queue.woken()):
        for uid in woken:
            queue.retry.refused(asked[uid], nowhere(queue.view))
        queue.seconds += 0.5
    assert queue.seconds - began < 5


def test_a_namespace_of_many_refused_pods_has_others_forgotten_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("extender.requeue.unschedulable_pods._MOST", 10)
    queue = Queue()
    queue.refuse("good")
    queue.refuse_all(*(f"b{at}" for at in range(20)), namespace="many")
    queue.end("t0")
    assert queue.woken() == ["good"]


def test_a_pod_that_lost_its_room_is_woken_by_the_next_room() -> None:
    queue = Queue(cards=2)
    asked = queue.refuse("a")
    queue.end("t0")
    assert queue.woken() == ["a"]
    bound(queue.view, "quicker", CARD, "n0")
    queue.retry.refused(asked, nowhere(queue.view))
    queue.seconds += 2.5
    queue.end("t1")
    assert queue.woken() == ["a"]


def test_a_quota_bounds_how_many_pods_are_woken() -> None:
    queue = Queue(cards=3)
    limit = NamespaceQuota(cards={"P40": 200})
    queue.view.set_quota(Quota(namespaces={"team": limit}))
    queue.refuse_all("a", "b", "c", namespace="team")
    queue.end("t0", "t1", "t2")
    assert queue.woken() == ["a", "b"]
    assert queue.view.usage.used("team", "P40") == 0


def test_room_that_a_quota_forbids_wakes_other_pods() -> None:
    queue = Queue()
    queue.view.set_quota(Quota(namespaces={"team": NamespaceQuota(cards={"P40": 0})}))
    queue.refuse("a", namespace="team")
    queue.refuse("b")
    queue.end("t0")
    assert queue.woken() == ["b"]


def test_a_raised_quota_wakes_the_pods_that_waited_for_it() -> None:
    queue = Queue()
    queue.view.set_quota(Quota(namespaces={"team": NamespaceQuota(cards={"P40": 0})}))
    queue.refuse("a", namespace="team")
    queue.end("t0")
    assert queue.woken() == []
    queue.view.set_quota(Quota(namespaces={"team": NamespaceQuota(cards={"P40": 100})}))
    assert queue.woken() == ["a"]


def test_ten_thousand_waiting_pods_cost_little_and_are_woken_in_rounds() -> None:
    queue = Queue(nodes=100)
    for number in range(10_000):
        queue.refuse(f"p{number}", HALF if number % 2 else CARD)
    for number in range(100):
        queue.end(f"t{number}")
    assert len(queue.woken()) == 40


# On a cluster.
