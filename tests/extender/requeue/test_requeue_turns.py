"""A namespace whose pods take no room goes behind others, whatever becomes of those pods."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from extender.cache.node_results import NodeResults
from extender.cache.pods import PodState
from extender.cache.search_time import HardwareChanges, SearchTime
from extender.requeue.simulation import RoomSimulation
from gpustack.model.equivalence import REFUSED
from gpustack.model.node import Node
from gpustack.model.refusal import Reason
from gpustack.model.request import PodRequest, Selector
from tests.extender.requeue.test_requeue import CARD, Queue
from tests.extender.states import known, nowhere, waiting
from tests.extender.verbs.search_clock import SearchClock
from tests.model.machines import card

PINNED = 100


def of_its_own(number: int) -> PodRequest:
    """What a pod asks like no other."""
    return replace(CARD, models=Selector(exclude=(f"x{number}",)))


def refused(queue: Queue, pod: PodState) -> None:
    """Its own node alone was asked, which is full."""
    queue.retry.refused(pod, nowhere(queue.view))


def deleted(queue: Queue, pod: PodState) -> None:
    refused(queue, pod)
    queue.end(pod.uid)


def changed(queue: Queue, pod: PodState) -> None:
    refused(queue, pod)
    now = waiting(pod.uid, of_its_own(PINNED + pod.version), namespace=pod.namespace)
    queue.view.pod_event("MODIFIED", now)
    refused(queue, now)


def not_searched(queue: Queue, pod: PodState) -> None:
    """Its namespace has used its time up."""
    over = SearchTime(0.0, queue.clock)
    said = NodeResults(("n1",), (REFUSED[Reason.NOT_SEARCHED],), rooms=queue.view.rooms)
    queue.retry.refused(pod, said, over)


@pytest.mark.parametrize("then", [deleted, changed, not_searched])
def test_a_namespace_gets_no_better_place_by_what_its_pods_do(
    then: Callable[[Queue, PodState], None],
) -> None:
    """A hundred pods that may go to a full node alone, and one of another namespace's."""
    queue = Queue(nodes=2)
    for at in range(PINNED):
        queue.refuse(f"b{at}", of_its_own(at), namespace="pinned")
    queue.refuse("good")
    queue.end("t0")
    began = queue.seconds
    while "good" not in (woken := queue.woken()):
        for uid in woken:
            pod = queue.view.pod(uid)
            assert pod is not None
            then(queue, pod)
        queue.seconds += 0.5
    assert queue.seconds - began < 5


def test_a_kind_is_asked_once_for_each_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that changes each moment isn't searched, and so all were asked for each pod anew."""
    queue, clock = Queue(), SearchClock()
    changes = queue.view.hardware_changes = HardwareChanges(clock, cpu=clock)
    for uuid in ("o1", "o2"):
        queue.view.set_node(known(Node(name="odd", cards=(card(0, uuid=uuid),))))
    with changes.search("odd", "default"):
        clock.seconds += 5
    evaluator, asked = queue.retry._evaluator, []

    def of(pod: PodState, *rest: Any) -> NodeResults:
        asked.append(pod.namespace)
        return type(evaluator).of(evaluator, pod, *rest)

    monkeypatch.setattr(evaluator, "of", of)
    simulation = RoomSimulation(queue.view, evaluator, lambda _: SearchTime(1.0, clock))
    pods = [waiting(f"w{at}", CARD, namespace=f"tenant{at % 2}") for at in range(100)]
    assert not any(simulation.hopeful(each) or simulation.knows(each) for each in pods)
    assert asked == ["tenant0", "tenant1"]
