"""Placements of pods: the worked examples, and the cases that greedy rules get wrong."""

from dataclasses import replace

import pytest

from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement, apply, holds, release
from gpustack.model.refusal import CardRefusal, Reason, Refusal
from gpustack.model.request import (
    ContainerKind,
    ContainerRequest,
    PodRequest,
    Selector,
    Strategy,
    Topology,
)
from gpustack.model.search import card_set_search
from gpustack.model.topology.link_level import parse_link
from gpustack.model.use import Use
from tests.model.asking import rank
from tests.model.machines import WHOLE, card, grouped, node, pod

# A host of seven P40s: cards 0-2 under one switch, 3-6 under another, one host bridge above.
HOST = grouped(3, 4)


def minors(answer: Placement | Refusal) -> list[tuple[int, ...]]:
    assert isinstance(answer, Placement), answer
    return [each.minors for each in answer.containers]


def reason(answer: Placement | Refusal) -> Reason:
    assert isinstance(answer, Refusal), answer
    return answer.reason


def cost(cards: tuple[int, ...]) -> int:
    return sum(parse_link(HOST[a][b]).cost for a in cards for b in cards if a < b)


@pytest.mark.parametrize(
    ("cores", "original"),
    [
        (100, (0,)),
        (200, (0, 1)),
        (300, (0, 1, 2)),
        (400, (3, 4, 5, 6)),
        (700, (0, 1, 2, 3, 4, 5, 6)),
    ],
)
def test_the_originals_best_choices_come_out_on_the_first_seeds_host(
    cores: int, original: tuple[int, ...]
) -> None:
    assert minors(place(node(7, HOST), pod((cores, 0)))) == [original]


def test_five_cards_of_the_first_seeds_host_cost_less_than_the_originals() -> None:
    [found] = minors(place(node(7, HOST), pod((500, 0))))
    assert found == (0, 3, 4, 5, 6)
    assert (cost(found), cost((0, 1, 2, 3, 4))) == (280, 320)


@pytest.mark.parametrize(
    ("cores", "expected"),
    [(100, (5,)), (200, (5, 6)), (300, (0, 1, 2)), (400, (0, 1, 2, 5))],
)
def test_whole_cards_beside_taken_ones_are_the_originals(
    cores: int, expected: tuple[int, ...]
) -> None:
    taken = node(7, HOST, {3: WHOLE, 4: WHOLE})
    assert minors(place(taken, pod((cores, 0)))) == [expected]


@pytest.mark.parametrize(("ask", "expected"), [((50, 4), (0,)), ((80, 4), (1,)), ((100, 0), (1,))])
def test_the_originals_examples_come_out_beside_a_shared_card(
    ask: tuple[int, int], expected: tuple[int, ...]
) -> None:
    shared = node(7, HOST, {0: Use(cores=30, memory_units=4)})
    assert minors(place(shared, pod(ask))) == [expected]


def test_a_share_takes_the_fullest_card_that_fits_and_spread_the_emptiest() -> None:
    uses = {0: Use(cores=10, memory_units=1), 1: Use(cores=40, memory_units=1)}
    assert minors(place(node(3, taken=uses), pod((50, 8)))) == [(1,)]
    spread = pod((50, 8), card_strategy=Strategy.SPREAD)
    assert minors(place(node(3, taken=uses), spread)) == [(2,)]


def test_equal_cores_are_told_apart_by_memory_and_then_by_minor() -> None:
    uses = {
        0: Use(cores=50, memory_units=1),
        1: Use(cores=50, memory_units=9),
        2: Use(cores=50, memory_units=9),
    }
    assert minors(place(node(3, taken=uses), pod((10, 8)))) == [(1,)]


def test_a_whole_card_must_be_wholly_free_even_of_memory() -> None:
    odd = node(1, taken={0: Use(cores=0, memory_units=1)})
    assert reason(place(odd, pod((100, 0)))) is Reason.NO_WHOLE_CARD


def test_an_over_committed_card_has_nothing_free_and_is_not_idle() -> None:
    over = node(2, taken={0: Use(cores=160, memory_units=99)})
    assert (over.free_cores(0), over.free_memory_units(0)) == (0, 0)
    assert minors(place(over, pod((10, 1)))) == [(1,)]


def test_two_containers_share_one_card_and_a_third_gets_a_whole_one() -> None:
    answer = place(node(2), pod((50, 8), (100, 0), (50, 8)))
    assert minors(answer) == [(1,), (0,), (1,)]


@pytest.mark.parametrize(
    ("demand", "links", "fits"),
    [
        (Topology.SINGLE_SWITCH, grouped(2, 2), True),
        (Topology.SINGLE_SWITCH, grouped(1, 1, across="PHB"), False),
        (Topology.SINGLE_SWITCH, (), False),
        (Topology.SINGLE_NUMA, grouped(1, 1, across="NODE"), True),
        (Topology.SINGLE_NUMA, grouped(1, 1, across="SYS"), False),
        (Topology.NVLINK, grouped(2, within="NV2"), True),
        (Topology.NVLINK, grouped(2, within="PIX"), False),
        (Topology.BEST_EFFORT, (), True),
    ],
)
def test_a_topology_demand_is_met_or_refused_never_degraded(
    demand: Topology, links: tuple[tuple[str, ...], ...], fits: bool
) -> None:
    answer = place(node(len(links) or 2, links), pod((200, 0), topology=demand))
    assert isinstance(answer, Placement) is fits
    if not fits:
        assert reason(answer) is Reason.TOPOLOGY_UNMET


def test_known_numa_nodes_decide_before_links_do() -> None:
    cards = (card(0, numa=0), card(1, numa=1), card(2, numa=1))
    near = Node(name="n", cards=cards, links=grouped(3, within="NV12"))
    assert minors(place(near, pod((200, 0), topology=Topology.SINGLE_NUMA))) == [(1, 2)]


def test_models_and_uuids_are_included_and_excluded() -> None:
    cards = (card(0), card(1, model="NVIDIA A100-SXM4-80GB"), card(2))
    mixed = Node(name="n", cards=cards)
    assert minors(place(mixed, pod((50, 8), models=Selector(include=("a100",))))) == [(1,)]
    assert minors(place(mixed, pod((50, 8), models=Selector(exclude=("P40",))))) == [(1,)]
    assert minors(place(mixed, pod((50, 8), uuids=Selector(include=("GPU-2",))))) == [(2,)]
    refused = place(mixed, pod((50, 8), models=Selector(include=("A10",))))
    assert reason(refused) is Reason.WRONG_MODEL


def test_an_unhealthy_card_takes_no_new_work() -> None:
    sick = Node(name="n", cards=(card(0, healthy=False), card(1)))
    assert minors(place(sick, pod((50, 8)))) == [(1,)]
    refused = place(sick, pod((200, 0)))
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.UNHEALTHY_CARDS
    assert refused.cards == (CardRefusal(minor=0, reason=Reason.UNHEALTHY_CARDS),)


def test_a_node_without_cards_says_so() -> None:
    assert reason(place(Node(name="cpu"), pod((50, 8)))) is Reason.NO_CARDS


def test_a_refusal_gives_the_reason_of_the_card_that_came_nearest() -> None:
    cards = (card(0, healthy=False), card(1), card(2))
    uses = (Use(), Use(cores=90, memory_units=1), Use(cores=10, memory_units=60))
    refused = place(Node(name="n", cards=cards, uses=uses), pod((50, 8)))
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.INSUFFICIENT_MEMORY
    assert [each.reason for each in refused.cards] == [
        Reason.UNHEALTHY_CARDS,
        Reason.INSUFFICIENT_CORE,
        Reason.INSUFFICIENT_MEMORY,
    ]
    assert "90 cores" in refused.detail


def test_refusals_of_different_numbers_have_the_same_words() -> None:
    one, two = place(node(1), pod((200, 0))), place(node(2), pod((700, 0)))
    assert isinstance(one, Refusal)
    assert isinstance(two, Refusal)
    assert one.message == two.message == "not enough wholly free GPUs"
    assert one.detail != two.detail


def init(index: int, cores: int, memory: int, kind: ContainerKind) -> ContainerRequest:
    return ContainerRequest(
        name=f"i{index}", kind=kind, index=index, cores=cores, memory_units=memory
    )


def with_init(app: tuple[int, int], *before: ContainerRequest) -> PodRequest:
    return PodRequest(containers=(*pod(app).containers, *before))


def test_a_pod_and_its_init_container_take_the_larger_use_of_one_card() -> None:
    request = with_init((30, 8), init(0, 60, 4, ContainerKind.INIT))
    answer = place(node(2), request)
    assert minors(answer) == [(0,), (0,)]
    assert isinstance(answer, Placement)
    assert holds(node(2), answer) == {0: Use(cores=60, memory_units=8)}


def test_a_sidecar_adds_up_with_its_pods_containers() -> None:
    request = with_init((60, 8), init(0, 60, 8, ContainerKind.SIDECAR))
    assert minors(place(node(2), request)) == [(0,), (1,)]
    assert reason(place(node(1), request)) is Reason.INSUFFICIENT_CORE


def test_an_init_container_runs_beside_the_sidecars_before_it_only() -> None:
    before = (init(0, 50, 8, ContainerKind.SIDECAR), init(1, 60, 8, ContainerKind.INIT))
    assert reason(place(node(1), with_init((10, 8), *before))) is Reason.INSUFFICIENT_CORE
    after = (init(0, 60, 8, ContainerKind.INIT), init(1, 50, 8, ContainerKind.SIDECAR))
    assert minors(place(node(1), with_init((10, 8), *after))) == [(0,), (0,), (0,)]


def test_an_init_container_of_two_cards_takes_its_pods_card_and_another() -> None:
    request = with_init((100, 0), init(0, 200, 0, ContainerKind.INIT))
    answer = place(node(3, grouped(1, 2)), request)
    app, first = minors(answer)
    assert set(app) < set(first)
    assert isinstance(answer, Placement)
    assert sum(use.cores for use in holds(node(3), answer).values()) == 200


def test_a_container_moves_to_a_card_that_its_init_container_fits_too() -> None:
    # Best fit would put the container on card 0, where the init container has no room.
    tight = node(2, taken={0: Use(cores=60, memory_units=8)})
    request = with_init((30, 8), init(0, 80, 8, ContainerKind.INIT))
    assert minors(place(tight, request)) == [(1,), (1,)]


def test_a_container_moves_to_a_like_card_its_init_container_can_pair() -> None:
    # Cards 0 and 1 have the same room, but only 1 has a partner by NVLink.
    links = grouped(1, 2, within="NV4", across="SYS")
    before = init(0, 200, 0, ContainerKind.INIT)
    request = PodRequest(containers=(*pod((50, 8)).containers, before), topology=Topology.NVLINK)
    assert minors(place(node(3, links), request)) == [(1,), (1, 2)]


def named(name: str, used: int) -> Node:
    return Node(name=name, cards=(card(0),), uses=(Use(cores=used, memory_units=1),))


def test_binpack_takes_the_fullest_node_that_fits_and_spread_the_emptiest() -> None:
    several = [named("b", 20), named("full", 90), named("c", 40), named("a", 20)]
    packed = rank(several, pod((30, 8)))
    assert [each.name for each, _ in packed] == ["c", "a", "b"]
    spread = rank(several, pod((30, 8), node_strategy=Strategy.SPREAD))
    assert [each.name for each, _ in spread] == ["a", "b", "c"]


def test_apply_shares_the_unchanged_parts_and_leaves_the_old_node_as_is() -> None:
    before = node(7, HOST)
    answer = place(before, pod((200, 0), (50, 8)))
    assert isinstance(answer, Placement)
    after = apply(before, answer)
    assert before == node(7, HOST)
    assert (after.cards is before.cards, after.links is before.links) == (True, True)
    assert release(after, answer) == before


def test_like_nodes_in_like_states_are_searched_once() -> None:
    links = grouped(5, 3, within="NV3", across="PHB")
    several = [replace(node(8, links, {2: WHOLE}), name=f"n{number}") for number in range(20)]
    card_set_search.ANSWERS.clear()
    answers = {tuple(minors(place(each, pod((300, 0))))) for each in several}
    assert len(answers) == 1
    assert len(card_set_search.ANSWERS) == 1


def test_a_release_of_a_placement_that_is_not_there_is_an_error() -> None:
    answer = place(node(1), pod((50, 8)))
    assert isinstance(answer, Placement)
    with pytest.raises(ValueError, match="holds less than is given back"):
        release(node(1), answer)


def test_a_renumbered_card_is_taken_and_so_is_the_one_at_its_old_minor() -> None:
    answer = place(node(3), pod((100, 0)))
    assert isinstance(answer, Placement)
    moved = (card(0, uuid="GPU-1"), card(1, uuid="GPU-0"), card(2, uuid="GPU-2"))
    now = apply(Node(name="node", cards=moved), answer)
    assert [use.cores for use in now.uses] == [100, 100, 0]
    assert [use.cores for use in release(now, answer).uses] == [0, 0, 0]


def test_a_card_that_is_gone_leaves_its_minor_taken_alone() -> None:
    answer = place(node(2), pod((100, 0)))
    assert isinstance(answer, Placement)
    other = Node(name="node", cards=(card(0, uuid="GPU-9"), card(1, uuid="GPU-1")))
    assert [use.cores for use in apply(other, answer).uses] == [100, 0]
