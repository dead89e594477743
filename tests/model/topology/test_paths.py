"""Cards that NVLink joins, on a node that knows their PCIe paths, too."""

from dataclasses import replace

import pytest

from gpustack.model.explain import add_capacity
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.policies import EXACT, Original, Policy
from gpustack.model.topology.link_level import check_links
from tests.model.machines import WHOLE, grouped, node, pod

BLIND = node(6, grouped(6, within="NV12"), {0: WHOLE})
PATHS = grouped(3, 3, within="PXB", across="SYS")
SEEING = replace(BLIND, paths=PATHS)


def minors(machine: Node, count: int, policy: Policy) -> tuple[int, ...]:
    answer = place(machine, pod((100 * count, 0)), policy)
    assert isinstance(answer, Placement)
    return answer.containers[0].minors


def test_the_original_chooses_by_paths_where_nvlink_hides_them() -> None:
    plain = replace(BLIND, links=PATHS)
    for count in (1, 2, 3):
        assert minors(SEEING, count, Original()) == minors(plain, count, Original())
    assert minors(SEEING, 3, Original()) == (3, 4, 5)
    assert minors(BLIND, 3, Original()) == (1, 2, 3)


def test_the_models_own_objective_looks_at_links_alone() -> None:
    for count in (1, 2, 3):
        assert minors(SEEING, count, EXACT) == minors(BLIND, count, EXACT)


def test_one_more_card_has_paths_like_its_pattern() -> None:
    grown = add_capacity.grown(SEEING, SEEING.cards[4], 2)
    check_links(grown.paths, 8)
    assert grown.paths[7] == ("SYS", "SYS", "SYS", "PXB", "PXB", "PXB", "PXB", "X")


def test_paths_of_another_number_of_cards_are_refused() -> None:
    with pytest.raises(ValueError, match="5 links, 6 cards"):
        replace(BLIND, paths=grouped(5))
