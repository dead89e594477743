"""Pods whose containers must go to cards of several models, by what a quota has left of each."""

from typing import Any

import pytest

from gpustack.model.node import Node
from gpustack.model.place import place, within
from gpustack.model.placement import Placement
from gpustack.model.policies import EXACT
from gpustack.model.quota.check import check
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.quota.usage import Usage
from gpustack.model.refusal import Refusal
from gpustack.model.request import Topology
from gpustack.model.use import Use
from tests.model.machines import card, pod

MODELS = ("Tesla P40", "Tesla T4")
MIXED = Node(name="mixed", cards=tuple(card(at, model=MODELS[at % 2]) for at in range(8)))


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ([(20, 12), (5, 4), (30, 4), (30, 16), (10, 52)], {"P40": 20, "T4": 75}),
        ([(30, 16), (35, 36), (45, 12), (10, 16), (25, 24)], {"P40": 25, "T4": 120}),
        ([(30, 4), (20, 12), (60, 12), (15, 32), (55, 40), (40, 36)], {"P40": 35, "T4": 190}),
        ([(15, 8), (45, 52), (15, 44), (15, 36), (35, 4), (15, 12)], {"P40": 105, "T4": 35}),
    ],
)
def test_a_few_shares_are_placed_as_the_quota_allows(
    asked: list[tuple[int, int]], left: dict[str, int]
) -> None:
    """Eight cards have many choices; those that some containers break it by aren't gone through."""
    limits = Quota(namespaces={"team": NamespaceQuota(cards=left)}), Usage(), "team"
    found = within(*limits, EXACT)(MIXED, pod(*asked))
    assert isinstance(found, Placement)
    assert check(*limits, MIXED, found) is None


def test_shares_are_placed_where_the_cards_in_use_have_room() -> None:
    """A share of 80 needs a P40, for the T4 have not so much free; so the others need a T4."""
    taken = {
        "P40": [(0, 0), (60, 8), (10, 28), (0, 0)],
        "T4": [(50, 20), (30, 2), (25, 4), (50, 32)],
    }
    cards = [(model, use) for model, uses in taken.items() for use in uses]
    node = Node(
        name="used",
        cards=tuple(card(at, 96, model=f"Tesla {model}") for at, (model, _) in enumerate(cards)),
        uses=tuple(Use(cores=cores, memory_units=units) for _, (cores, units) in cards),
    )
    left = {"P40": 100, "T4": 200}
    limits = Quota(namespaces={"team": NamespaceQuota(cards=left)}), Usage(), "team"
    found = within(*limits, EXACT)(node, pod((40, 20), (40, 10), (40, 18), (35, 12), (80, 8)))
    assert isinstance(found, Placement)
    assert check(*limits, node, found) is None


def test_whole_cards_of_two_models_are_joined_as_demanded() -> None:
    """One NUMA node of four has both; the first sets of cards that are left out leave others."""
    cards = (
        card(at, model=MODELS[name == "T"], numa=at // 4)
        for at, name in enumerate("PTTTPTTTTTPPPPPP")
    )
    quota = Quota(namespaces={"team": NamespaceQuota(cards={"P40": 200, "T4": 100})})
    asked = pod((300, 0), topology=Topology.SINGLE_NUMA)
    found = within(quota, Usage(), "team", EXACT)(Node(name="mixed", cards=tuple(cards)), asked)
    assert isinstance(found, Placement)
    assert found.containers[0].minors == (8, 10, 11)


def test_a_quota_that_no_mixture_keeps_to_costs_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole cards take no half of one, so 1.5 and 2.5 cards are 3."""
    searches: list[Any] = []

    def counted(*asked: Any, **options: Any) -> Any:
        searches.append(asked)
        return place(*asked, **options)

    monkeypatch.setattr("gpustack.model.place.place", counted)
    quota = Quota(namespaces={"team": NamespaceQuota(cards={"P40": 150, "T4": 250})})
    assert isinstance(within(quota, Usage(), "team", EXACT)(MIXED, pod((400, 0))), Refusal)
    assert len(searches) == 1
