"""The measure of FGD, by hand and against its definition."""

import gc
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.node import Node
from gpustack.model.policies.fragmentation import (
    NOTHING_KNOWN,
    Shape,
    Workload,
    fragmented,
    growth,
    ratio,
    workload_of,
)
from gpustack.model.request import ContainerKind, ContainerRequest, PodRequest
from gpustack.model.use import Use
from tests.model.machines import WHOLE, card, node, nodes, pod

HALF = Shape(cores=50, memory_units=8)
PAIR = Shape(cores=200, memory_units=0)


def of(*shapes: tuple[Shape, int]) -> Workload:
    return Workload(shapes=shapes)


def by_definition(on: Node, workload: Workload) -> int:
    """The paper's two cases for every shape, one by one."""
    total = 0
    healthy = [i for i, each in enumerate(on.cards) if each.healthy]
    for shape, weight in workload.shapes:
        if shape.cores >= 100:
            serving = [i for i in healthy if on.uses[i].idle]
            can = len(serving) >= shape.cores // 100
        else:
            serving = [
                i
                for i in healthy
                if on.free_cores(i) >= shape.cores and on.free_memory_units(i) >= shape.memory_units
            ]
            can = bool(serving)
        lost = [i for i in healthy if not can or i not in serving]
        total += weight * sum(on.free_cores(i) for i in lost)
    return total


def test_an_idle_node_that_serves_every_shape_has_no_fragments() -> None:
    assert fragmented(node(4), of((HALF, 1), (PAIR, 1))) == 0


def test_free_cores_that_no_shape_fits_on_are_fragmented_and_others_not() -> None:
    used = node(3, taken={0: Use(cores=60, memory_units=1)})
    # Card 0 has 40 cores, too few for the half and for the pair: 40 are lost to each.
    assert fragmented(used, of((HALF, 1))) == 40
    assert fragmented(used, of((PAIR, 1))) == 40
    assert fragmented(used, of((HALF, 3), (PAIR, 1))) == 3 * 40 + 40


def test_a_node_that_cannot_serve_a_shape_is_wholly_fragmented() -> None:
    used = node(2, taken={0: Use(cores=10, memory_units=1)})
    assert fragmented(used, of((PAIR, 1))) == 190


def test_memory_alone_can_keep_a_card_from_serving() -> None:
    used = node(1, taken={0: Use(cores=10, memory_units=60)})
    assert fragmented(used, of((HALF, 1))) == 90


def test_an_unhealthy_card_has_no_fragments() -> None:
    sick = Node(name="n", cards=(card(0, healthy=False), card(1)))
    assert fragmented(sick, of((PAIR, 1))) == 100


@given(nodes(), st.lists(st.tuples(st.integers(1, 99), st.integers(1, 26)), max_size=4))
def test_the_measure_is_its_definition(on: Node, shares: list[tuple[int, int]]) -> None:
    shapes = [Shape(cores=cores, memory_units=memory) for cores, memory in shares]
    shapes += [Shape(cores=100, memory_units=0), PAIR]
    workload = of(*((shape, at + 1) for at, shape in enumerate(shapes)))
    assert fragmented(on, workload) == by_definition(on, workload)


shapes = st.builds(Shape, cores=st.integers(1, 99), memory_units=st.integers(1, 26))
whole_shapes = st.builds(
    Shape, cores=st.integers(1, 4).map(lambda cards: 100 * cards), memory_units=st.just(0)
)


@given(nodes(), st.lists(st.tuples(st.one_of(shapes, whole_shapes), st.integers(1, 5))))
def test_the_measure_is_a_sum_over_shapes_and_at_most_the_free_cores(
    on: Node, several: list[tuple[Shape, int]]
) -> None:
    measured = fragmented(on, of(*several))
    assert measured == sum(weight * fragmented(on, of((shape, 1))) for shape, weight in several)
    free = sum(on.free_cores(i) for i, each in enumerate(on.cards) if each.healthy)
    assert 0 <= measured <= free * of(*several).total


@given(nodes(), shapes, st.integers(0, 20), st.integers(0, 20))
def test_a_larger_shape_finds_at_least_as_much_fragmented(
    on: Node, shape: Shape, cores: int, units: int
) -> None:
    larger = Shape(
        cores=min(99, shape.cores + cores), memory_units=shape.memory_units + units
    )  # fmt: skip
    assert fragmented(on, of((shape, 1))) <= fragmented(on, of((larger, 1)))
    assert fragmented(on, of((larger, 1))) <= fragmented(
        on, of((Shape(cores=99, memory_units=99), 1))
    )


@given(st.integers(0, 8), st.integers(1, 8))
def test_idle_cards_are_fragments_only_to_shapes_that_ask_for_more(cards: int, asked: int) -> None:
    shape = Shape(cores=100 * asked, memory_units=0)
    assert fragmented(node(cards), of((shape, 1))) == (100 * cards if asked > cards else 0)
    full = node(cards, taken=dict.fromkeys(range(cards), WHOLE))
    assert fragmented(full, of((shape, 1))) == 0


@given(nodes(), st.lists(st.tuples(shapes, st.integers(1, 5)), min_size=1), st.randoms())
def test_the_measure_does_not_depend_on_the_order_of_cards(
    on: Node, several: list[tuple[Shape, int]], order: random.Random
) -> None:
    at = order.sample(range(len(on.cards)), len(on.cards))
    cards = tuple(
        replace(on.cards[old], minor=on.cards[new].minor) for new, old in enumerate(at)
    )  # fmt: skip
    mixed = Node(name=on.name, cards=cards, uses=tuple(on.uses[old] for old in at))
    assert fragmented(mixed, of(*several)) == fragmented(on, of(*several))


@given(nodes(), shapes, st.lists(st.tuples(st.one_of(shapes, whole_shapes), st.integers(1, 5))))
def test_growth_on_a_card_is_the_measure_after_less_the_measure_before(
    on: Node, share: Shape, several: list[tuple[Shape, int]]
) -> None:
    taken = Use(cores=share.cores, memory_units=share.memory_units)
    grown = growth(on, of(*several), taken)
    for index, each in enumerate(on.cards):
        room = on.free_cores(index) >= share.cores
        if each.healthy and room and on.free_memory_units(index) >= share.memory_units:
            uses = list(on.uses)
            uses[index] += taken
            after = fragmented(on.with_uses(tuple(uses)), of(*several))
            assert grown(index) == after - fragmented(on, of(*several))


def test_a_workload_counts_containers_by_shape_without_init_containers() -> None:
    init = ContainerRequest(name="i", kind=ContainerKind.INIT, index=0, cores=100, memory_units=0)
    several = pod((50, 8), (200, 32))
    workload = workload_of([(several, 2), (pod((50, 8)), 1), (PodRequest(containers=(init,)), 9)])
    assert dict(workload.shapes) == {HALF: 3, PAIR: 2}
    assert workload.total == 5


def test_workloads_of_before_are_not_remembered() -> None:
    """Users may ask for other shapes each minute, and one workload has 256 of them."""
    for minute in range(200):
        fragmented(node(2), of((HALF, 1), (PAIR, minute + 1)))
    gc.collect()
    kept = sum(isinstance(each, Workload) for each in gc.get_objects())
    assert kept < 100


def test_a_ratio_is_in_cards_and_is_0_for_an_empty_workload() -> None:
    assert ratio(250, of((HALF, 2), (PAIR, 3))) == pytest.approx(0.5)
    assert fragmented(node(1), NOTHING_KNOWN) == 0
    assert ratio(0, NOTHING_KNOWN) == 0


def test_a_weight_of_0_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        of((HALF, 0))
