"""What holds for every node and every pod."""

import random

from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.device import Node, arrange
from gpustack.model.explanation import Reason, Refusal
from gpustack.model.holding import Placement, apply, release
from gpustack.model.placement import place, rank
from gpustack.model.request import ContainerKind, PodRequest
from gpustack.model.verification import verify
from tests.model import reference
from tests.model.machines import nodes, pods

orders = st.randoms(use_true_random=False)


@given(nodes(), pods())
def test_a_placement_obeys_every_rule_and_a_refusal_means_that_nothing_does(
    node: Node, request: PodRequest
) -> None:
    answer = place(node, request)
    possible = list(reference.assignments(node, request))
    if isinstance(answer, Refusal):
        assert not possible
        return
    given_cards = {
        asked: tuple(node.index_of(minor) for minor in placed.minors)
        for asked, placed in zip(request.containers, answer.containers, strict=True)
    }
    assert given_cards in possible


@given(nodes(), pods())
def test_a_placed_pod_never_takes_a_card_beyond_its_capacity(
    node: Node, request: PodRequest
) -> None:
    answer = place(node, request)
    if isinstance(answer, Placement):
        after = apply(node, answer)
        for index, card in enumerate(node.cards):
            if after.uses[index] != node.uses[index]:
                assert after.uses[index].cores <= 100
                assert after.uses[index].memory_units <= card.memory_units


@given(nodes(), pods())
def test_every_container_gets_as_many_cards_as_it_asks_and_no_more(
    node: Node, request: PodRequest
) -> None:
    answer = place(node, request)
    if isinstance(answer, Placement):
        counts = [len(set(each.minors)) for each in answer.containers]
        assert counts == [max(1, each.cores // 100) for each in request.containers]


@given(nodes(), pods(), orders)
def test_the_answer_does_not_depend_on_the_order_of_cards_or_containers(
    node: Node, request: PodRequest, order: random.Random
) -> None:
    shuffled = order.sample(range(len(node.cards)), len(node.cards))
    cards, links = arrange(
        tuple(node.cards[i] for i in shuffled),
        tuple(tuple(node.links[a][b] for b in shuffled) for a in shuffled) if node.links else (),
    )
    other = Node(name=node.name, cards=cards, links=links, uses=node.uses)
    containers = tuple(order.sample(request.containers, len(request.containers)))
    again = PodRequest(
        containers=containers,
        topology=request.topology,
        node_strategy=request.node_strategy,
        card_strategy=request.card_strategy,
    )
    one, two = place(node, request), place(other, again)
    if isinstance(one, Refusal) or isinstance(two, Refusal):
        assert one == two
    else:
        assert set(one.containers) == set(two.containers)


@given(nodes(), st.lists(pods(), max_size=4), orders)
def test_releasing_in_any_order_restores_the_exact_state(
    node: Node, requests: list[PodRequest], order: random.Random
) -> None:
    state, held = node, []
    for request in requests:
        answer = place(state, request)
        if isinstance(answer, Placement):
            state = apply(state, answer)
            held.append(answer)
    for answer in order.sample(held, len(held)):
        state = release(state, answer)
    assert state == node


@given(nodes(), pods())
def test_what_is_placed_passes_verification(node: Node, request: PodRequest) -> None:
    answer = place(node, request)
    if isinstance(answer, Placement):
        assert verify(node, answer, request) is None


@given(nodes(used=False), pods(), pods())
def test_a_second_pod_on_the_same_cards_is_refused_or_fits_beside_the_first(
    node: Node, first: PodRequest, second: PodRequest
) -> None:
    one, two = place(node, first), place(node, second)
    if isinstance(one, Refusal) or isinstance(two, Refusal):
        return
    both = apply(apply(node, one), two)
    fits = all(
        use.cores <= 100 and use.memory_units <= card.memory_units
        for use, card in zip(both.uses, node.cards, strict=True)
    )
    refusal = verify(apply(node, one), two, second)
    if not fits:
        assert refusal is not None
        assert refusal.reason in {
            Reason.INSUFFICIENT_CORE,
            Reason.INSUFFICIENT_MEMORY,
            Reason.NO_WHOLE_CARD,
        }
    elif all(each.cores < 100 for each in (*first.containers, *second.containers)):
        assert refusal is None


@given(st.lists(nodes(), max_size=5, unique_by=lambda node: node.name), pods(), orders)
def test_rank_does_not_depend_on_the_order_of_nodes_and_leaves_out_only_refusals(
    several: list[Node], request: PodRequest, order: random.Random
) -> None:
    ranked = rank(several, request)
    assert ranked == rank(order.sample(several, len(several)), request)
    fitting = {node.name for node in several if isinstance(place(node, request), Placement)}
    assert {node.name for node, _ in ranked} == fitting
    assert all(placement.node == node.name for node, placement in ranked)


@given(nodes(), pods())
def test_a_refusal_speaks_of_cards_that_exist_each_at_most_once(
    node: Node, request: PodRequest
) -> None:
    answer = place(node, request)
    if isinstance(answer, Refusal):
        minors = [each.minor for each in answer.cards]
        assert minors == sorted(set(minors))
        assert set(minors) <= {card.minor for card in node.cards}
        assert not any(char.isdigit() for char in answer.message)
        assert answer.detail


@given(nodes(), pods())
def test_an_init_container_adds_nothing_where_the_pods_own_cards_hold_enough(
    node: Node, request: PodRequest
) -> None:
    answer = place(node, request)
    running = tuple(each for each in request.containers if each.kind is not ContainerKind.INIT)
    if isinstance(answer, Refusal) or not running:
        return
    kept = tuple(each for each in answer.containers if each.kind is not ContainerKind.INIT)
    cards = {minor for each in kept for minor in each.minors}
    for each in answer.containers:
        extra = set(each.minors) - cards
        assert len(extra) == max(0, len(each.minors) - len(cards))
        cards |= extra
