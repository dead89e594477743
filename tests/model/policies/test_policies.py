"""Choices of each policy: the original's worked examples, and properties of every policy."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpustack.model import policies
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement, apply
from gpustack.model.policies import EXACT, Fgd, Original, Spread
from gpustack.model.policies.fragmentation import Shape, Workload, fragmented
from gpustack.model.request import PodRequest, Strategy, Topology
from gpustack.model.search import card_set_search, demand
from gpustack.model.topology.link_level import Links
from gpustack.model.use import Use
from tests.model.asking import rank
from tests.model.machines import (
    WHOLE,
    Hierarchy,
    card,
    grouped,
    hierarchies,
    link_matrices,
    node,
    nodes,
    pod,
    pods,
)
from tests.model.policies import gpu_manager
from tests.model.properties import reference
from tests.model.search.test_card_set_search import objective
from tests.model.test_place import HOST, cost, minors

ORIGINAL = Original()
IDLE = node(7, HOST)
TAKEN = node(7, HOST, {3: WHOLE, 4: WHOLE})
SHARED = node(7, HOST, {0: Use(cores=30, memory_units=4)})
WORKLOAD = Workload(
    shapes=(
        (Shape(cores=25, memory_units=4), 3),
        (Shape(cores=60, memory_units=16), 2),
        (Shape(cores=100, memory_units=0), 2),
        (Shape(cores=300, memory_units=0), 1),
    )
)
ALL = (EXACT, ORIGINAL, Spread(), Fgd(WORKLOAD))
every_policy = st.sampled_from(ALL)

# Choices of the original's own evaluators; 120 runs gave the same choices 120 times.
EXAMPLES = [
    (IDLE, (100, 0), (0,)),
    (IDLE, (200, 0), (0, 1)),
    (IDLE, (300, 0), (0, 1, 2)),
    (IDLE, (400, 0), (3, 4, 5, 6)),
    (IDLE, (500, 0), (0, 1, 2, 3, 4)),
    (IDLE, (700, 0), (0, 1, 2, 3, 4, 5, 6)),
    (TAKEN, (100, 0), (5,)),
    (TAKEN, (200, 0), (5, 6)),
    (TAKEN, (300, 0), (0, 1, 2)),
    (TAKEN, (400, 0), (0, 1, 2, 5)),
    (SHARED, (50, 4), (0,)),
    (SHARED, (80, 4), (1,)),
    (SHARED, (100, 0), (1,)),
]


def question(on: Node, cards: tuple[int, ...]) -> card_set_search.CardSetQuery:
    free = sum(1 << index for index, use in enumerate(on.uses) if use.idle)
    size = len(on.cards)
    return card_set_search.CardSetQuery(
        links=demand.links_of(on), free=free, candidates=free, count=len(cards),
        joins=((1 << size) - 1,) * size,
    )  # fmt: skip


@pytest.mark.parametrize(("on", "ask", "expected"), EXAMPLES)
def test_the_originals_worked_examples_come_out_under_original(
    on: Node, ask: tuple[int, int], expected: tuple[int, ...]
) -> None:
    assert minors(place(on, pod(ask), ORIGINAL)) == [expected]


@pytest.mark.parametrize(("on", "ask", "expected"), EXAMPLES)
def test_exact_is_equal_to_the_original_or_better_on_its_worked_examples(
    on: Node, ask: tuple[int, int], expected: tuple[int, ...]
) -> None:
    [found] = minors(place(on, pod(ask)))
    if ask[0] < 100:
        assert found == expected
    else:
        asked = question(on, expected)
        assert objective(asked, found) <= objective(asked, expected)


def test_five_cards_cost_320_under_original_and_280_under_exact() -> None:
    [original] = minors(place(IDLE, pod((500, 0)), ORIGINAL))
    [exact] = minors(place(IDLE, pod((500, 0)), EXACT))
    assert (cost(original), cost(exact)) == (320, 280)


def test_the_original_passes_over_a_lone_card_and_exact_takes_it_first() -> None:
    # Card 0 hangs directly under the host bridge, beside a pair under a switch.
    lone = node(3, grouped(1, 2))
    assert minors(place(lone, pod((100, 0)), ORIGINAL)) == [(1,)]
    assert minors(place(lone, pod((100, 0)), EXACT)) == [(0,)]


def test_ties_of_the_original_go_to_the_group_with_the_lowest_card() -> None:
    two = node(6, grouped(3, 3))
    assert minors(place(two, pod((200, 0)), ORIGINAL)) == [(0, 1)]
    assert minors(place(two, pod((100, 0)), ORIGINAL)) == [(0,)]


def test_original_goes_on_to_the_next_group_where_one_breaks_a_demand() -> None:
    # NVLink stands between cards of different switches only; the original doesn't see it.
    links = (
        ("X", "PIX", "NV4", "SYS"),
        ("PIX", "X", "SYS", "NV4"),
        ("NV4", "SYS", "X", "PIX"),
        ("SYS", "NV4", "PIX", "X"),
    )
    assert minors(place(node(4, links), pod((200, 0)), ORIGINAL)) == [(0, 1)]
    nvlink = pod((200, 0), topology=Topology.NVLINK)
    assert minors(place(node(4, links), nvlink, ORIGINAL)) == [(0, 2)]


def test_original_ignores_a_spread_strategy_and_spread_always_spreads() -> None:
    uses = {0: Use(cores=10, memory_units=1), 1: Use(cores=40, memory_units=1)}
    wish = pod((20, 4), card_strategy=Strategy.SPREAD, node_strategy=Strategy.SPREAD)
    assert minors(place(node(3, taken=uses), wish, ORIGINAL)) == [(1,)]
    assert minors(place(node(3, taken=uses), pod((20, 4)), Spread())) == [(2,)]


def test_fgd_leaves_the_card_whole_that_the_workload_needs_whole() -> None:
    # Best fit by cores would take card 0 and leave 20 of it, which no shape asks for.
    half = Workload(
        shapes=((Shape(cores=50, memory_units=4), 1), (Shape(cores=30, memory_units=4), 1))
    )
    uses = {0: Use(cores=50, memory_units=4), 1: Use(cores=40, memory_units=4)}
    ask = pod((30, 4))
    assert minors(place(node(2, taken=uses), ask, EXACT)) == [(0,)]
    assert minors(place(node(2, taken=uses), ask, Fgd(half))) == [(1,)]


def test_fgd_chooses_among_nodes_by_the_increase_and_not_by_fullness() -> None:
    half = Workload(shapes=((Shape(cores=50, memory_units=4), 1),))
    full = Node(name="full", cards=(card(0),), uses=(Use(cores=50, memory_units=4),))
    odd = Node(name="odd", cards=(card(0),), uses=(Use(cores=30, memory_units=4),))
    ask = pod((20, 4))
    assert [each.name for each, _ in rank([full, odd], ask, EXACT)] == ["full", "odd"]
    assert [each.name for each, _ in rank([full, odd], ask, Fgd(half))] == ["odd", "full"]


def test_fgd_spares_the_size_of_card_that_the_workload_needs() -> None:
    large = Workload(shapes=((Shape(cores=50, memory_units=32), 1),))
    mixed = Node(name="n", cards=(card(0, 64), card(1, 16)))
    assert minors(place(mixed, pod((100, 0)), Fgd(large))) == [(1,)]


@given(hierarchies(), st.data())
def test_original_answers_as_gpu_manager_on_every_hierarchical_machine(
    machine: Hierarchy, data: st.DataObject
) -> None:
    links = machine[1]
    size = len(links)
    some = st.tuples(st.integers(1, 99), st.integers(1, 63))
    takes = st.dictionaries(st.integers(0, size - 1), st.one_of(st.just((100, 64)), some))
    taken = data.draw(takes)
    uses = {card: Use(cores=cores, memory_units=units) for card, (cores, units) in taken.items()}
    shares = data.draw(st.lists(some, min_size=1, max_size=3))
    for ask in (*((100 * count, 0) for count in range(1, size + 1)), *shares):
        theirs = gpu_manager.evaluate(gpu_manager.taken(gpu_manager.build(links), taken), *ask)
        answer = place(node(size, links, uses), pod(ask), ORIGINAL)
        assert ([theirs] if theirs else []) == (
            minors(answer) if isinstance(answer, Placement) else []
        )


@pytest.mark.parametrize(("on", "ask", "expected"), EXAMPLES)
def test_the_gpu_manager_of_the_tests_gives_its_own_worked_examples(
    on: Node, ask: tuple[int, int], expected: tuple[int, ...]
) -> None:
    taken = {at: (use.cores, use.memory_units) for at, use in enumerate(on.uses) if not use.idle}
    tree = gpu_manager.taken(gpu_manager.build(on.links), taken)
    assert gpu_manager.evaluate(tree, *ask) == expected


@given(st.integers(2, 10).flatmap(link_matrices), st.data())
def test_exact_is_never_worse_than_the_original_by_the_stated_objective(
    links: Links, data: st.DataObject
) -> None:
    size = len(links)
    taken = data.draw(st.sets(st.integers(0, size - 1), max_size=size - 1))
    on = node(size, links, dict.fromkeys(taken, WHOLE))
    count = data.draw(st.integers(1, size - len(taken)))
    ask = pod((100 * count, 0))
    [original], [exact] = minors(place(on, ask, ORIGINAL)), minors(place(on, ask, EXACT))
    asked = question(on, exact)
    assert objective(asked, exact) <= objective(asked, original)


@given(nodes(), st.integers(1, 99), st.integers(1, 26))
def test_a_share_under_fgd_goes_where_fragmentation_grows_least(
    on: Node, cores: int, memory: int
) -> None:
    policy = Fgd(WORKLOAD)
    answer = place(on, pod((cores, memory)), policy)
    assume(isinstance(answer, Placement))
    assert isinstance(answer, Placement)
    asked = pod((cores, memory)).containers[0]
    grown = []
    for index in range(len(on.cards)):
        if reference.allowed(on, pod((cores, memory)), asked, (index,)) and (
            reference.within_capacity(on, {asked: (index,)})
        ):
            uses = list(on.uses)
            uses[index] = uses[index] + asked.share
            grown.append(fragmented(on.with_uses(tuple(uses)), WORKLOAD))
    assert fragmented(apply(on, answer), WORKLOAD) == min(grown)


@given(nodes(), pods())
def test_fgd_without_a_workload_decides_as_exact(on: Node, request: PodRequest) -> None:
    assert place(on, request, Fgd()) == place(on, request, EXACT)


def test_policies_have_names_and_an_unknown_one_is_refused() -> None:
    assert policies.NAMES == ("exact", "original", "spread", "fgd")
    assert [policies.named(name).name for name in policies.NAMES] == list(policies.NAMES)
    assert policies.named("fgd", WORKLOAD) == Fgd(WORKLOAD)
    with pytest.raises(KeyError):
        policies.named("luck")
