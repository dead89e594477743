"""Properties of every node and every pod: `cases` draws them, `reference` has the rules.

An order with a meaning is part of the question and is left alone: the minors of cards (ties go
to the lowest), the order of init containers (which run together), names of nodes (the last tie).
"""

import random
from dataclasses import replace
from typing import Any

from hypothesis import event, example, given

from gpustack.model.node import Node, arrange
from gpustack.model.place import place
from gpustack.model.placement import Placement, apply
from gpustack.model.policies import EXACT
from gpustack.model.refusal import Reason, Refusal
from gpustack.model.request import ContainerKind, PodRequest, Selector, Strategy, Topology
from gpustack.model.search import card_set_search
from gpustack.model.verification import verify
from tests import profiles
from tests.model.machines import dice, grouped, in_use, node, numbered
from tests.model.policies.test_policies import ALL, ORIGINAL
from tests.model.properties import reference
from tests.model.properties.cases import Case, cases, machines, pod_of

# All cards are alike but for their neighbours; card 0 has none, so the share must not go there.
LONELY = Case(
    node=node(3, grouped(1, 2, across="SYS")),
    request=PodRequest(
        containers=numbered([(ContainerKind.APP, (30, 4)), (ContainerKind.INIT, (200, 0))]),
        topology=Topology.SINGLE_SWITCH,
    ),
)


@profiles.at_least(1_000)
@given(cases())
@example(LONELY)
def test_every_policy_obeys_the_rules_and_refuses_only_where_nothing_fits(
    case: Case,
) -> None:
    node, request = case.node, case.request
    answers = {policy.name: place(node, request, policy) for policy in ALL}
    possible = reference.fits_somehow(node, request)
    event(f"{'placed' if possible else 'refused'}, {min(2, len(request.containers))} containers")
    event(f"{request.topology.value}: {possible}")
    for name, answer in answers.items():
        assert isinstance(answer, Placement) is possible, name
        if isinstance(answer, Placement):
            assert not reference.complaint(node, request, answer), name


@profiles.at_least(600)
@given(cases())
def test_a_pod_takes_its_busiest_moment_and_over_commits_no_card(
    case: Case,
) -> None:
    node = case.node
    for policy in ALL:
        answer = place(node, case.request, policy)
        if isinstance(answer, Refusal):
            continue
        held = reference.held(node, case.request, answer)
        after = apply(node, answer)
        for at, (card, before, now) in enumerate(
            zip(node.cards, node.uses, after.uses, strict=True)
        ):
            cores, units = held.get(at, (0, 0))
            assert (now.cores, now.memory_units) == (
                before.cores + cores,
                before.memory_units + units,
            )
            if at in held:
                assert now.cores <= 100
                assert now.memory_units * reference.UNIT <= card.memory_bytes


@profiles.at_least(600)
@given(machines(least=3), dice)
def test_exact_takes_the_best_of_all_sets_and_original_never_beats_it(
    node: Node, rolled: random.Random
) -> None:
    node = in_use(rolled, node, most=0.5)
    free = [at for at, use in enumerate(node.uses) if use.idle]
    count = rolled.randint(1, max(1, len(free)))
    some = tuple(rolled.sample(free, min(count, len(free))))
    [container] = numbered([(ContainerKind.APP, (100 * count, 0))])
    request = pod_of(rolled, node, (container,), {container: some})
    spread = request.card_strategy is Strategy.SPREAD
    every = [
        reference.objective(node, cards, spread=spread)
        for cards in reference.sets_alone(node, request, container)
    ]
    exact, original = place(node, request, EXACT), place(node, request, ORIGINAL)
    event(f"{min(2, len(every))} sets, {min(3, count)} cards")
    if isinstance(exact, Refusal) or isinstance(original, Refusal):
        assert not every
        return

    def value(answer: Placement) -> Any:
        return reference.objective(node, reference.cards_of(node, answer), spread=spread)

    assert value(exact) == min(every)
    assert value(original) in every
    event(f"the original is {'as good' if value(original) == value(exact) else 'worse'}")


@given(cases(), dice)
def test_an_answer_is_the_same_in_any_order_of_cards_containers_and_names(
    case: Case, order: random.Random
) -> None:
    node, request = case.node, case.request
    shuffled = order.sample(range(len(node.cards)), len(node.cards))
    cards, links = arrange(
        tuple(node.cards[i] for i in shuffled),
        tuple(tuple(node.links[a][b] for b in shuffled) for a in shuffled) if node.links else (),
    )
    other = replace(node, cards=cards, links=links)
    containers = tuple(order.sample(request.containers, len(request.containers)))
    again = replace(
        request,
        containers=containers,
        models=_shuffled(request.models, order),
        uuids=_shuffled(request.uuids, order),
    )
    card_set_search.ANSWERS.clear()  # earlier questions change no answer either
    for policy in ALL:
        one, two = place(node, request, policy), place(other, again, policy)
        if isinstance(one, Refusal) or isinstance(two, Refusal):
            assert one == two
        else:
            assert set(one.containers) == set(two.containers)


def _shuffled(selector: Selector, order: random.Random) -> Selector:
    return Selector(
        include=tuple(order.sample(selector.include, len(selector.include))),
        exclude=tuple(order.sample(selector.exclude, len(selector.exclude))),
    )


@given(cases(least_containers=3), dice)
def test_containers_in_another_order_take_the_same_of_the_same_cards(
    case: Case, order: random.Random
) -> None:
    apps = [each for each in case.request.containers if each.kind is ContainerKind.APP]
    numbers = order.sample([each.index for each in apps], len(apps))
    event(f"{len(apps)} containers")
    moved = [replace(each, index=at) for each, at in zip(apps, numbers, strict=True)]
    others = [each for each in case.request.containers if each.kind is not ContainerKind.APP]
    request = replace(case.request, containers=(*moved, *others))
    for policy in ALL:
        one, two = place(case.node, case.request, policy), place(case.node, request, policy)
        if isinstance(one, Refusal) or isinstance(two, Refusal):
            assert isinstance(one, Refusal)
            assert isinstance(two, Refusal)
        else:
            assert apply(case.node, one) == apply(case.node, two)


@given(cases(), dice)
def test_verification_passes_exactly_what_the_rules_allow(
    case: Case, rolled: random.Random
) -> None:
    node, request = case.node, case.request
    every = range(len(node.cards))
    if max(map(reference.count, request.containers)) > len(every):
        return
    answer = place(node, request)
    for _ in range(4):
        decided = Placement(
            node=node.name,
            containers=tuple(
                reference.placed(node, each, sorted(rolled.sample(every, reference.count(each))))
                for each in request.containers
            ),
        )
        complaint = reference.complaint(node, request, decided)
        event(f"a decision at random: {'impossible' if complaint else 'possible'}")
        # The agent asks whether a decision can be carried out, not whether it is a thrifty one.
        thriftless = complaint.startswith("it takes")
        assert (verify(node, decided, request) is None) == (not complaint or thriftless)
    if isinstance(answer, Placement):
        assert verify(node, answer, request) is None


@given(cases())
def test_a_refusal_names_existing_cards_at_most_once_each_and_rightly(case: Case) -> None:
    node, request = case.node, case.request
    answer = place(node, request)
    event(answer.reason if isinstance(answer, Refusal) else "placed")
    if isinstance(answer, Placement):
        return
    minors = [each.minor for each in answer.cards]
    assert minors == sorted(set(minors))
    for each in answer.cards:
        [card] = [card for card in node.cards if card.minor == each.minor]
        assert (each.reason is Reason.UNHEALTHY_CARDS) is not card.healthy
        if card.healthy:
            wanted = reference.accepts(request, card)
            assert (each.reason is Reason.WRONG_MODEL) is not wanted
    assert not any(char.isdigit() for char in answer.message)
    assert answer.detail
    if answer.reason is Reason.TOPOLOGY_UNMET:
        assert request.topology is not Topology.BEST_EFFORT
        assert reference.fits_somehow(node, replace(request, topology=Topology.BEST_EFFORT)) or (
            len(request.containers) > 1
        )
