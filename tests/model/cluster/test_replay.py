"""Traces under a policy: when each pod is placed, what is measured, no over-committed card."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.cluster.replay import (
    Arrival,
    Load,
    Moment,
    Run,
    Simulation,
    load_of,
    mean,
    run,
    sample,
)
from gpustack.model.node import Node
from gpustack.model.policies import EXACT, Policy
from gpustack.model.policies.fragmentation import Shape, Workload, fragmented, workload_of
from gpustack.model.request import PodRequest
from tests.model.cluster.test_simulator import clusters, every_policy
from tests.model.machines import node, pod, pods

CARD = pod((100, 0))
HALF = pod((50, 8))
WORKLOAD = workload_of([(CARD, 1), (HALF, 1)])
ONE = [node(1)]


def play(several: list[Node], *arrivals: Arrival, policy: Policy = EXACT) -> Run:
    return run(several, arrivals, policy, WORKLOAD)


def arrival(at: float, duration: float | None, request: PodRequest, count: int = 1) -> Arrival:
    return Arrival(at=at, duration=duration, request=request, count=count)


def test_a_pod_that_fits_runs_at_once_and_leaves_after_its_duration() -> None:
    found = play(ONE, arrival(5, 10, CARD))
    assert [(each.at, each.load.cores, each.waiting) for each in found.moments] == [
        (5, 100, 0),
        (15, 0, 0),
    ]
    assert (found.placed, found.unplaced, found.waited_seconds) == (1, 0, 0)


def test_a_pod_that_waits_has_its_whole_duration_from_its_placement() -> None:
    found = play(ONE, arrival(0, 10, CARD), arrival(2, 10, CARD))
    assert [(each.at, each.load.cores, each.waiting) for each in found.moments] == [
        (0, 100, 0),
        (2, 100, 1),
        (10, 100, 0),
        (20, 0, 0),
    ]
    assert found.waited_seconds == 8


def test_pods_wait_in_order_of_arrival_and_a_small_one_may_pass_a_large() -> None:
    two = [node(2)]
    found = play(
        two, arrival(0, 10, CARD), arrival(0, 30, CARD), arrival(1, 10, pod((200, 0))),
        arrival(2, 5, HALF), arrival(3, 5, HALF),
    )  # fmt: skip
    at = {each.at: (each.load.cores, each.waiting) for each in found.moments}
    assert at[10] == (200, 1)  # both halves on the freed card, before the pair
    assert at[30] == (200, 0)


def test_at_one_moment_departures_come_before_arrivals() -> None:
    found = play(ONE, arrival(0, 10, CARD), arrival(10, 5, CARD))
    assert found.waited_seconds == 0


def test_a_pod_without_duration_stays_and_one_that_never_fits_is_unplaced() -> None:
    found = play(ONE, arrival(0, None, HALF), arrival(1, 5, CARD, 3))
    assert (found.placed, found.unplaced) == (1, 3)
    assert found.moments[-1].at == 1


def test_like_pods_arrive_together() -> None:
    assert play(ONE, arrival(0, 1, HALF, 2)).moments[0].load.cores == 100


def test_the_use_at_the_beginning_counts_and_stays() -> None:
    used = [replace(ONE[0], uses=(ONE[0].uses[0] + HALF.containers[0].share,))]
    found = play(used, arrival(0, 1, HALF))
    assert [each.load.cores for each in found.moments] == [100, 50]


def test_progress_is_told_in_pods() -> None:
    told: list[tuple[int, int]] = []
    arrivals = [arrival(0, 1, HALF, 2), arrival(5, 1, HALF)]
    run(ONE, arrivals, EXACT, WORKLOAD, lambda done, total: told.append((done, total)))
    assert told == [(2, 3), (2, 3), (3, 3), (3, 3)]


def test_samples_are_the_last_moment_not_after_and_means_are_over_time() -> None:
    moments = [Moment(at=at, load=Load(cores=cores), waiting=0) for at, cores in ((2, 10), (4, 40))]
    assert [each.load.cores for each in sample(moments, (0, 2, 3, 4, 9))] == [10, 10, 10, 40, 40]
    assert mean(moments, 5, lambda each: each.load.cores) == pytest.approx((2 * 10 + 40) / 3)
    assert mean(moments, 3, lambda each: each.load.cores) == 10
    assert mean(moments[:1], 2, lambda each: each.load.cores) == 10


@st.composite
def traces(draw: st.DrawFn) -> list[Arrival]:
    requests = draw(st.lists(pods(2), min_size=1, max_size=3))
    one = st.builds(
        Arrival,
        at=st.integers(0, 20).map(float),
        duration=st.one_of(st.none(), st.integers(1, 10).map(float)),
        request=st.sampled_from(requests),
        count=st.integers(1, 3),
    )
    return draw(st.lists(one, min_size=1, max_size=6))


@given(clusters(), traces(), every_policy)
def test_no_card_is_ever_over_committed_in_any_replay(
    several: list[Node], trace: list[Arrival], policy: Policy
) -> None:
    simulation = Simulation(several, trace, policy, WORKLOAD)
    before = {each.name: each for each in several}
    for moment in simulation.moments():
        for each in simulation.fleet.nodes:
            old = before[each.name].uses
            for card, was, now in zip(each.cards, old, each.uses, strict=True):
                assert now == was or (now.cores <= 100 and now.memory_units <= card.memory_units)
        expected = [load_of(each, WORKLOAD) for each in simulation.fleet.nodes]
        assert moment.load.cores == sum(each.cores for each in expected)
        assert moment.load.memory_units == sum(each.memory_units for each in expected)
        assert moment.load.fragmented == sum(each.fragmented for each in expected)


@given(clusters(), traces(), every_policy)
def test_after_the_last_departure_the_cluster_is_as_it_was(
    several: list[Node], trace: list[Arrival], policy: Policy
) -> None:
    ending = [replace(each, duration=each.duration or 1.0) for each in trace]
    simulation = Simulation(several, ending, policy, WORKLOAD)
    moments = list(simulation.moments())
    assert simulation.fleet.nodes == tuple(sorted(several, key=lambda each: each.name))
    assert len(simulation.placements) + moments[-1].waiting == simulation.total
    assert [each.at for each in moments] == sorted({each.at for each in moments})


@given(clusters(), traces(), every_policy)
def test_the_same_trace_gives_the_same_run_whatever_the_order_of_nodes(
    several: list[Node], trace: list[Arrival], policy: Policy
) -> None:
    assert run(several, trace, policy, WORKLOAD) == run(several[::-1], trace, policy, WORKLOAD)


@given(clusters(), traces())
def test_a_pod_that_waits_at_the_end_fits_no_node(
    several: list[Node], trace: list[Arrival]
) -> None:
    staying = [replace(each, duration=None) for each in trace]
    simulation = Simulation(several, staying, EXACT, WORKLOAD)
    moments = list(simulation.moments())
    placed = sum(each.count for each in trace) - moments[-1].waiting
    assert len(simulation.placements) == placed
    if moments[-1].waiting:
        names = {each.name for each in several}
        refused = [simulation.fleet.refusals(each.request).keys() for each in trace]
        assert names in refused


def test_a_load_counts_what_is_in_use_and_not_what_is_over_committed() -> None:
    over = replace(ONE[0], uses=(replace(ONE[0].uses[0], cores=160, memory_units=99),))
    shape = Workload(shapes=((Shape(cores=10, memory_units=1), 1),))
    found = load_of(over, shape)
    assert (found.cores, found.memory_units) == (100, 64)
    assert found.fragmented == fragmented(over, shape) == 0
