"""The fleet answers as `rank` does, pod after pod, whatever it remembers."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.cluster.simulator import Simulator
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement, apply, release
from gpustack.model.policies import EXACT, Policy
from gpustack.model.refusal import Refusal
from gpustack.model.request import PodRequest, Selector
from tests.model.asking import rank
from tests.model.machines import node, nodes, pod, pods
from tests.model.policies.test_policies import ALL

every_policy = st.sampled_from(ALL)
A, B = (replace(node(2), name=name) for name in ("a", "b"))


@st.composite
def clusters(draw: st.DrawFn) -> list[Node]:
    """Some nodes, several of them with the same hardware and the same uses."""
    kinds = draw(st.lists(nodes(), min_size=1, max_size=2))
    copies = [each for each in kinds for _ in range(draw(st.integers(1, 3)))]
    return [
        replace(
            each,
            name=f"n{number}",
            cards=tuple(replace(card, uuid=f"{number}-{card.minor}") for card in each.cards),
        )
        for number, each in enumerate(copies)
    ]


def simulator(several: Iterable[Node], policy: Policy = EXACT) -> Simulator:
    return Simulator(several, policy, partial(place, policy=policy))


class Plainly:
    """A simulator that asks every node every time."""

    def __init__(self, several: Iterable[Node], policy: Policy) -> None:
        self.nodes = {each.name: each for each in several}
        self.policy = policy

    def place(self, request: PodRequest) -> Placement | None:
        ranked = rank(self.nodes.values(), request, self.policy)
        if not ranked:
            return None
        on, placement = ranked[0]
        self.nodes[on.name] = apply(on, placement)
        return placement


@given(clusters(), st.lists(pods(), min_size=1, max_size=3), every_policy, st.data())
def test_pods_that_come_and_go_are_placed_as_rank_places_them(
    several: list[Node], requests: list[PodRequest], policy: Policy, data: st.DataObject
) -> None:
    fleet, plain = simulator(several, policy), Plainly(several, policy)
    held: list[Placement] = []
    for _ in range(data.draw(st.integers(1, 10))):
        leaves: bool = data.draw(st.booleans())
        if held and leaves:
            gone = held.pop(data.draw(st.integers(0, len(held) - 1)))
            fleet.release(gone)
            plain.nodes[gone.node] = release(plain.nodes[gone.node], gone)
        request = data.draw(st.sampled_from(requests))
        found = fleet.place(request)
        assert found == plain.place(request)
        if found is not None:
            held.append(found)
    assert fleet.nodes == tuple(plain.nodes[name] for name in sorted(plain.nodes))


@given(clusters(), pods(), every_policy)
def test_room_is_the_count_of_pods_placed_until_none_fits(
    several: list[Node], request: PodRequest, policy: Policy
) -> None:
    fleet, plain = simulator(several, policy), Plainly(several, policy)
    counts = {each.name: 0 for each in several}
    while (found := plain.place(request)) is not None:
        counts[found.node] += 1
    assert dict(fleet.room(request)) == counts


@given(clusters(), pods(), every_policy)
def test_refusals_are_those_of_the_nodes_that_refuse(
    several: list[Node], request: PodRequest, policy: Policy
) -> None:
    answers = {each.name: place(each, request, policy) for each in several}
    expected = {name: each for name, each in answers.items() if isinstance(each, Refusal)}
    assert simulator(several, policy).refusals(request) == expected


def test_a_pod_that_names_a_uuid_gets_that_card_and_not_a_like_one() -> None:
    a = replace(A, cards=tuple(replace(card, uuid=f"a{card.minor}") for card in A.cards))
    b = replace(B, cards=tuple(replace(card, uuid=f"b{card.minor}") for card in B.cards))
    fleet = simulator([a, b])
    found = fleet.place(pod((50, 8), uuids=Selector(include=("b1",))))
    assert found is not None
    assert (found.node, found.containers[0].uuids) == ("b", ("b1",))
    assert fleet.room(pod((50, 8), uuids=Selector(include=("b1",)))) == {"a": 0, "b": 1}


def test_only_the_named_nodes_are_looked_at() -> None:
    found = simulator([A, B]).place(pod((50, 8)), among=["b"])
    assert found is not None
    assert found.node == "b"


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two nodes are named 'a'"):
        simulator([A, A])


def test_a_second_release_of_a_placement_is_refused() -> None:
    fleet = simulator([A])
    found = fleet.place(pod((50, 8)))
    assert found is not None
    fleet.release(found)
    with pytest.raises(ValueError, match="holds less than is given back"):
        fleet.release(found)
