"""Pods of many containers: placed, refused with proof, or stopped at a bound that is told."""

import random

import pytest

from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.refusal import Reason, Refusal
from gpustack.model.request import Topology
from gpustack.model.search import backtracking
from gpustack.model.search.budget import MOST_LOOKS, Gap, SearchBudget
from gpustack.model.topology.link_level import Level
from tests.model.machines import card, grouped, node, pod
from tests.model.test_place import minors, reason


def test_the_first_choice_is_taken_back_where_it_blocks_another_container() -> None:
    # The whole card would go to 0, the only one that is large enough for the share.
    mixed = Node(name="n", cards=(card(0, 64), card(1, 16)))
    assert minors(place(mixed, pod((100, 0), (50, 32)))) == [(1,), (0,)]


def test_two_pairs_are_chosen_so_that_both_are_joined_by_nvlink() -> None:
    # A chain 2-0-1-3: the best pair by number of links is 0-1, which leaves no second pair.
    far = "SYS"
    links = (
        ("X", "NV4", "NV1", far),
        ("NV4", "X", far, "NV1"),
        ("NV1", far, "X", far),
        (far, "NV1", far, "X"),
    )
    demand = pod((200, 0), (200, 0), topology=Topology.NVLINK)
    assert minors(place(node(4, links), demand)) == [(0, 2), (1, 3)]


def test_a_pod_that_cannot_fit_is_refused_without_trying_all_ways() -> None:
    # Two of these fit on a card, so 17 don't fit on 8; trying all pairings would take years.
    asks = [(34 + number % 16, 1 + number) for number in range(17)]
    refused = place(node(8), pod(*asks))
    assert reason(refused) is Reason.INSUFFICIENT_CORE
    assert isinstance(refused, Refusal)
    assert "proven" not in refused.detail


def brimful(cards: int) -> list[tuple[int, int]]:
    """Three shares for each card that fill it to the last core and unit, of all sizes."""
    draw = random.Random(4)  # noqa: S311  # no secret
    asks = []
    for _ in range(cards):
        cores, units = sorted(draw.sample(range(1, 100), 2)), sorted(draw.sample(range(1, 64), 2))
        asks += [(cores[0], units[0]), (cores[1] - cores[0], units[1] - units[0])]
        asks += [(100 - cores[1], 64 - units[1])]
    return asks


def test_a_search_without_end_stops_at_a_bound_and_says_so() -> None:
    one, two = place(node(16), pod(*brimful(16))), place(node(16), pod(*brimful(16)))
    assert isinstance(one, Refusal)
    assert "stopped with 48 containers on 16 cards, so this is not proven" in one.detail
    assert one == two


def test_a_stopped_search_costs_no_more_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    efforts: list[SearchBudget] = []

    def watched() -> SearchBudget:
        efforts.append(SearchBudget())
        return efforts[-1]

    monkeypatch.setattr(backtracking, "SearchBudget", watched)
    place(node(16), pod(*brimful(16)))
    assert [-MOST_LOOKS / 10 < each.left < 0 for each in efforts] == [True]


@pytest.mark.parametrize(("count", "fits"), [(1024, True), (1025, False), (5000, False)])
def test_a_pod_of_a_thousand_containers_is_answered(count: int, fits: bool) -> None:
    answer = place(node(16), pod(*[(1, 1)] * count))
    assert isinstance(answer, Placement) is fits


def test_whole_cards_of_any_size_leave_the_large_cards_to_the_shares() -> None:
    cards = tuple(card(minor, 80 - 4 * minor) for minor in range(16))
    answer = place(Node(name="n", cards=cards), pod((1400, 0), (10, 80), (10, 76)))
    assert minors(answer) == [tuple(range(2, 16)), (0,), (1,)]


def test_the_answer_of_an_incomplete_search_carries_the_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The share needs card 0, which is one of the nearest nine; too many others are left to see.
    monkeypatch.setattr(backtracking, "SearchBudget", lambda: SearchBudget(left=1500))
    cards = tuple(card(minor, 80 - 4 * minor) for minor in range(16))
    links = grouped(8, 8, within="NV4", across="SYS")
    ask = pod((900, 0), (10, 80))
    answer = place(Node(name="n", cards=cards, links=links), ask)
    assert isinstance(answer, Placement)
    assert 0 not in answer.containers[0].minors
    best = 28 * 5 + 8 * 60
    assert answer.gap == Gap(level=Level.SYS, cost=best)
