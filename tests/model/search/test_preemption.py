"""The pods that must end for another: never too few, never one too many, never a dearer set."""

import itertools
from collections.abc import Iterable
from dataclasses import replace

import hypothesis
import pytest
from hypothesis import strategies as st

from gpustack.model.cluster.cluster import Tenant
from gpustack.model.node import Node
from gpustack.model.place import place, within
from gpustack.model.placement import ContainerPlacement, Placement, Placer, apply, release
from gpustack.model.policies import EXACT
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.quota.usage import Usage
from gpustack.model.request import PodRequest
from gpustack.model.search.preemption import (
    Candidate,
    Fits,
    Leaving,
    TimeOver,
    victims,
    without,
)
from gpustack.model.use import Use
from tests.model import machines
from tests.model.counted import Counted

MOST = 6


def candidate(
    uid: str, minors: Iterable[int], cores: int, memory: int = 0, **known: object
) -> Candidate:
    cards = tuple(minors)
    held = ContainerPlacement(
        name="main",
        index=0,
        minors=cards,
        uuids=tuple(f"GPU-{minor}" for minor in cards),
        cores=cores,
        memory_units=memory,
    )
    placement = Placement(node="node", containers=(held,))
    tenant = Tenant(
        uid=uid, namespace=str(known.pop("namespace", "a")), name=uid, placement=placement
    )
    return Candidate(tenant=tenant, **known)  # type: ignore[arg-type]


def full(size: int, pods: Iterable[Candidate]) -> Node:
    """A node of like cards that counts these pods."""
    node = machines.node(size)
    for each in pods:
        node = apply(node, each.tenant.placement)
    return node


def after(node: Node, request: PodRequest, placer: Placer = place) -> Fits:
    """Say whether a pod fits on a node, which counts them all, once some have ended."""
    left = without(node)
    return lambda leaving: isinstance(placer(left(leaving), request), Placement)


@st.composite
def candidates(draw: st.DrawFn, size: int) -> list[Candidate]:
    found = []
    for number in range(draw(st.integers(0, MOST))):
        whole = draw(st.booleans())
        count = draw(st.integers(1, size)) if whole else 1
        first = draw(st.integers(0, size - count))
        found.append(
            candidate(
                f"u{number}",
                range(first, first + count),
                100 * count if whole else draw(st.sampled_from([20, 50, 80])),
                64 if whole else draw(st.sampled_from([8, 32])),
                priority=draw(st.sampled_from([-5, 0, 0, 10])),
                started=draw(st.integers(0, 3)),
                protected=draw(st.sampled_from([False, False, True])),
                proposed=draw(st.booleans()),
                ending=draw(st.sampled_from([False, False, False, True])),
            )
        )
    return found


def dearness(pods: Iterable[Candidate]) -> tuple[int, ...]:
    """Return the rank of a set in the order that the docstring of the product's module states."""
    chosen = list(pods)
    living = [each for each in chosen if not each.ending]
    priorities = [each.priority for each in living]
    return (
        len([each for each in living if each.protected]),
        len(living),
        max(priorities, default=-(2**31)),
        sum(priorities),
        len([each for each in living if not each.proposed]),
        len(chosen),
    )


@st.composite
def questions(draw: st.DrawFn) -> tuple[Node, PodRequest, list[Candidate]]:
    size = draw(st.integers(1, 4))
    pods = draw(candidates(size))
    request = draw(machines.pods(2))
    node = full(size, pods)
    others = st.sampled_from([(0, 0), (0, 0), (30, 8)])
    uses = tuple(
        use + Use(cores=more[0], memory_units=more[1])
        for use, more in zip(node.uses, draw(st.tuples(*[others] * size)), strict=True)
    )
    return node.with_uses(uses), request, pods


@hypothesis.given(questions())
def test_no_set_of_victims_is_better_and_the_most_important_is_first(
    question: tuple[Node, PodRequest, list[Candidate]],
) -> None:
    node, request, pods = question
    fits = after(node, request)
    sets = (
        chosen
        for size in range(len(pods) + 1)
        for chosen in itertools.combinations(pods, size)
        if fits(chosen)
    )
    best = min(map(dearness, sets), default=None)
    found = victims(pods, fits)
    if found is None:
        assert best is None
        return
    assert fits(found.pods)
    assert found.smallest
    assert dearness(found.pods) == best
    order = [(-each.priority, each.started) for each in found.pods]
    assert order == sorted(order)


@hypothesis.given(questions(), st.randoms(use_true_random=False))
def test_the_order_of_the_candidates_does_not_matter(
    question: tuple[Node, PodRequest, list[Candidate]], random: object
) -> None:
    node, request, pods = question
    shuffled = list(pods)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert victims(shuffled, after(node, request)) == victims(pods, after(node, request))


@hypothesis.given(questions(), st.integers(0, 3))
def test_a_set_after_the_bound_makes_room_and_needs_each_of_its_pods(
    question: tuple[Node, PodRequest, list[Candidate]], most_tries: int
) -> None:
    node, request, pods = question
    asked = 0
    really = after(node, request)

    def fits(leaving: Leaving) -> bool:
        nonlocal asked
        asked += 1
        return really(leaving)

    found = victims(pods, fits, most_tries=most_tries)
    assert asked <= most_tries + 2 * len(pods) + 1
    if found is not None:
        assert really(found.pods)
        for each in found.pods:
            assert not really(tuple(other for other in found.pods if other is not each))


@hypothesis.given(questions(), st.integers(0, 3 * MOST))
def test_a_set_at_the_end_of_the_time_needs_each_of_its_pods(
    question: tuple[Node, PodRequest, list[Candidate]], calls: int
) -> None:
    node, request, pods = question
    fits, left = after(node, request), itertools.count(calls, -1)

    def until(leaving: Leaving) -> bool:
        if next(left) <= 0:
            raise TimeOver
        return fits(leaving)

    try:
        found = victims(pods, until)
    except TimeOver:
        assert calls <= len(pods), "there was no time for the first set"
        return
    assert (found is None) == (not fits(tuple(pods)))
    if found is not None:
        assert fits(found.pods)
        for each in found.pods:
            assert not fits(tuple(other for other in found.pods if other is not each))


def names(pods: list[Candidate], request: PodRequest, size: int = 2) -> list[str]:
    found = victims(pods, after(full(size, pods), request))
    return [] if found is None else [each.tenant.uid for each in found.pods]


def test_one_pod_of_a_card_ends_rather_than_two_of_another() -> None:
    pods = [
        candidate("a", [0], 30, 8),
        candidate("b", [0], 30, 8),
        candidate("c", [1], 90, 8, started=-9),
    ]
    assert names(pods, machines.pod((100, 0))) == ["c"]


def test_a_protected_pod_stays_even_if_two_others_must_end() -> None:
    pods = [
        candidate("a", [0], 30, 8),
        candidate("b", [0], 30, 8),
        candidate("c", [1], 90, 8, protected=True),
    ]
    assert names(pods, machines.pod((100, 0))) == ["a", "b"]


def test_of_two_like_pods_the_younger_one_ends() -> None:
    pods = [candidate("old", [0], 50, 8, started=1), candidate("new", [0], 50, 8, started=2)]
    assert names(pods, machines.pod((50, 8)), size=1) == ["new"]


def test_a_pod_that_is_ending_costs_nothing() -> None:
    pods = [
        candidate("kept", [0], 60, 8),
        candidate("one", [1], 30, 8, ending=True, priority=9),
        candidate("two", [1], 30, 8, ending=True, priority=9),
    ]
    assert names(pods, machines.pod((100, 0))) == ["one", "two"]


def test_a_pod_that_the_scheduler_proposed_is_preferred() -> None:
    pods = [candidate("mine", [0], 60, 8), candidate("its", [1], 60, 8, proposed=True)]
    assert names(pods, machines.pod((100, 0))) == ["its"]


def test_no_pod_ends_where_there_is_room_or_where_it_does_not_help() -> None:
    assert names([candidate("a", [0], 60, 8)], machines.pod((40, 8)), size=1) == []
    assert victims([], after(full(1, []), machines.pod((200, 0)))) is None


def test_a_full_quota_names_the_pods_of_its_namespace() -> None:
    pods = [candidate("own", [0], 60, 8), candidate("strange", [1], 60, 8, namespace="b")]
    node = full(2, pods)
    limits = Quota(namespaces={"a": NamespaceQuota(cards={"P40": 100})})
    usage = Usage()
    for each in pods:
        usage.put(each.tenant.uid, each.tenant.namespace, each.tenant.name, node,
                  each.tenant.placement)  # fmt: skip

    def fits(leaving: Leaving) -> bool:
        gone = {each.tenant.uid for each in leaving}
        placer = within(limits, usage, "a", EXACT, without=gone)
        return after(node, machines.pod((100, 0)), placer)(leaving)

    found = victims(pods, fits)
    assert found is not None
    assert [each.tenant.uid for each in found.pods] == ["own"]


@pytest.mark.parametrize("cards", [1, 4, 8])
def test_a_node_full_of_shares_stays_within_the_bound(cards: int) -> None:
    pods = [
        candidate(f"u{card}-{at}", [card], 12, 8, priority=at % 2)
        for card in range(8)
        for at in range(8)
    ]
    found = victims(pods, after(full(8, pods), machines.pod((100 * cards, 0))))
    assert found is not None
    assert len(found.pods) == 8 * cards


def test_a_node_without_pods_is_as_if_each_had_given_back_its_cards() -> None:
    pods = [candidate(f"u{at}", [at % 3, 3], 5, at) for at in range(4)]
    node = full(4, pods)
    left = without(node)
    for size in range(len(pods) + 1):
        for leaving in itertools.combinations(pods, size):
            expected = node
            for each in leaving:
                expected = release(expected, each.tenant.placement)
            assert left(leaving) == expected


def test_what_a_pod_holds_is_added_up_once_for_all_sets() -> None:
    """A first set of 110 pods of 63 init containers took 2.2 s; a question may have half of one."""
    pod = candidate("u", [0], 5, 5)
    node = full(1, [pod])
    containers = Counted(pod.tenant.placement.containers)
    tenant = replace(pod.tenant, placement=Placement(node="node", containers=containers))
    left, before = without(node), containers.looks
    for _ in range(10):
        assert left((replace(pod, tenant=tenant),)).uses[0].idle
    assert containers.looks - before == 1
