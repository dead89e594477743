"""The measure of FGD, by hand and against its definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.device import Node, Use
from gpustack.model.fragmentation import (
    NOTHING_KNOWN,
    Shape,
    Workload,
    fragmented,
    ratio,
    workload_of,
)
from gpustack.model.request import ContainerKind, ContainerRequest, PodRequest
from tests.model.machines import card, node, nodes, pod

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


def test_what_no_shape_fits_on_is_fragmented_and_the_rest_is_not() -> None:
    used = node(3, taken={0: Use(cores=60, memory_units=1)})
    # For the half card 0 has 40 too few; for the pair those 40 are lost as well.
    assert fragmented(used, of((HALF, 1))) == 40
    assert fragmented(used, of((PAIR, 1))) == 40
    assert fragmented(used, of((HALF, 3), (PAIR, 1))) == 3 * 40 + 40


def test_where_a_node_cannot_serve_a_shape_all_of_it_is_fragmented() -> None:
    used = node(2, taken={0: Use(cores=10, memory_units=1)})
    assert fragmented(used, of((PAIR, 1))) == 190


def test_memory_alone_can_keep_a_card_from_serving() -> None:
    used = node(1, taken={0: Use(cores=10, memory_units=60)})
    assert fragmented(used, of((HALF, 1))) == 90


def test_unhealthy_cards_have_nothing_to_lose() -> None:
    sick = Node(name="n", cards=(card(0, healthy=False), card(1)))
    assert fragmented(sick, of((PAIR, 1))) == 100


@given(nodes(), st.lists(st.tuples(st.integers(1, 99), st.integers(1, 26)), max_size=4))
def test_the_measure_is_its_definition(on: Node, shares: list[tuple[int, int]]) -> None:
    shapes = [Shape(cores=cores, memory_units=memory) for cores, memory in shares]
    shapes += [Shape(cores=100, memory_units=0), PAIR]
    workload = of(*((shape, at + 1) for at, shape in enumerate(shapes)))
    assert fragmented(on, workload) == by_definition(on, workload)


def test_a_workload_counts_containers_by_shape_and_leaves_init_containers_out() -> None:
    init = ContainerRequest(name="i", kind=ContainerKind.INIT, index=0, cores=100, memory_units=0)
    several = pod((50, 8), (200, 32))
    workload = workload_of([(several, 2), (pod((50, 8)), 1), (PodRequest(containers=(init,)), 9)])
    assert dict(workload.shapes) == {HALF: 3, PAIR: 2}
    assert workload.total == 5


def test_a_ratio_is_in_cards_and_nothing_asked_is_nothing_lost() -> None:
    assert ratio(250, of((HALF, 2), (PAIR, 3))) == pytest.approx(0.5)
    assert fragmented(node(1), NOTHING_KNOWN) == 0
    assert ratio(0, NOTHING_KNOWN) == 0


def test_a_weight_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        of((HALF, 0))
