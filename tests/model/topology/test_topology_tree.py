"""The tree: partitions at every level, the original's answer wherever it has a sound one."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.node import Node
from gpustack.model.topology import card_tree
from gpustack.model.topology.card_tree import TreeLevel
from tests.model.machines import (
    Hierarchy,
    card,
    grouped,
    hierarchies,
    link_matrices,
    partition,
    symmetric,
)
from tests.model.policies import gpu_manager

LEVELS = {"PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}
PATHS = tuple(LEVELS)


def shape(branch: card_tree.Branch) -> object:
    """A card's number, or (level, shapes of the children in any order)."""
    if branch.level is TreeLevel.CARD:
        return branch.cards[0]
    return int(branch.level), frozenset(shape(child) for child in branch.children)


@given(hierarchies())
def test_a_hierarchical_matrix_gives_exactly_its_hierarchy(
    machine: Hierarchy,
) -> None:
    addresses, links = machine
    root = card_tree.build(len(links), links)
    for known, level in enumerate((50, 40, 30, 20, 10)):
        groups: dict[tuple[int, ...], list[int]] = {}
        for index, address in enumerate(addresses):
            groups.setdefault(address[:known], []).append(index)
        expected = {tuple(group) for group in groups.values()}
        assert set(partition(root, TreeLevel(level))) == expected
    for branch in card_tree.walk(root):
        if TreeLevel.CARD < branch.level < TreeLevel.ROOT:
            assert len(branch.children) > 1


@given(hierarchies())
def test_the_original_builds_the_same_tree_of_a_hierarchical_matrix(
    machine: Hierarchy,
) -> None:
    links = machine[1]
    original = gpu_manager.build(links)
    assert shape(card_tree.build(len(links), links)) == gpu_manager.shape(original.root)


@given(st.data(), st.integers(0, 9))
def test_every_level_of_any_matrix_is_a_partition_that_refines_the_next(
    data: st.DataObject, size: int
) -> None:
    links = data.draw(link_matrices(size))
    numas = tuple(data.draw(st.sampled_from([None, 0, 1])) for _ in range(size))
    root = card_tree.build(size, links, numas)
    finer: tuple[tuple[int, ...], ...] = tuple((index,) for index in range(size))
    for level in TreeLevel:
        groups = partition(root, level)
        assert sorted(index for group in groups for index in group) == list(range(size))
        for group in finer:
            assert any(set(group) <= set(coarser) for coarser in groups)
        finer = groups
    for branch in card_tree.walk(root):
        below = [index for child in branch.children for index in child.cards]
        assert branch.level is TreeLevel.CARD or sorted(below) == list(branch.cards)
        assert all(child.level < branch.level for child in branch.children)


@given(st.data(), st.integers(2, 8))
def test_two_cards_meet_no_farther_than_their_link_says(data: st.DataObject, size: int) -> None:
    links = data.draw(link_matrices(size, PATHS))
    root = card_tree.build(size, links)
    for a, b in combinations(range(size), 2):
        level = TreeLevel(LEVELS[links[a][b]])
        assert any({a, b} <= set(group) for group in partition(root, level))


def test_the_blogs_seven_cards_are_three_and_four_below_one_host_bridge() -> None:
    root = card_tree.build(7, grouped(3, 4))
    pix = (10, frozenset({0, 1, 2})), (10, frozenset({3, 4, 5, 6}))
    assert shape(root) == (60, frozenset({(30, frozenset(pix))}))


def test_a_matrix_that_is_not_transitive_lists_every_card_once() -> None:
    # The original builds PIX {0,2,3} and PIX {1,2} of this, and allocates card 2 twice.
    tokens = {pair: "PHB" for pair in combinations(range(4), 2)}
    tokens |= {(0, 3): "PIX", (1, 2): "PIX", (2, 3): "PIX"}
    links = symmetric(4, tokens)
    root = card_tree.build(4, links)
    assert shape(root) == (60, frozenset({(10, frozenset({0, 1, 2, 3}))}))
    assert gpu_manager.shape(gpu_manager.build(links).root) != shape(root)


def test_two_gpus_of_one_board_meet_at_the_single_switch() -> None:
    links = (("X", "INTERNAL"), ("INTERNAL", "X"))
    assert shape(card_tree.build(2, links)) == (60, frozenset({(10, frozenset({0, 1}))}))


def test_a_lone_card_hangs_under_the_first_group_it_belongs_to() -> None:
    root = card_tree.build(3, grouped(2, 1, across="NODE"))
    assert shape(root) == (60, frozenset({(40, frozenset({(10, frozenset({0, 1})), 2}))}))


@pytest.mark.parametrize("size", [0, 1, 3])
def test_cards_without_known_links_hang_directly_under_the_root(size: int) -> None:
    assert shape(card_tree.build(size, ())) == (60, frozenset(range(size)))
    assert card_tree.of(Node(name="n", cards=tuple(card(i) for i in range(size)))).level == 60


def test_one_card_with_a_matrix_hangs_directly_under_the_root() -> None:
    assert shape(card_tree.build(1, (("X",),))) == (60, frozenset({0}))


NVLINKED = tuple(tuple("X" if a == b else "NV12" for b in range(4)) for a in range(4))


@pytest.mark.parametrize(
    ("numas", "expected"),
    [
        ((), {(50, frozenset(range(4)))}),
        ((None, 0, 0, None), {(50, frozenset({(40, frozenset({1, 2})), 0, 3}))}),
        ((0, 0, 0, 0), {(40, frozenset(range(4)))}),
        ((1, 0, 1, 0),
         {(50, frozenset({(40, frozenset({0, 2})), (40, frozenset({1, 3}))}))}),
    ],
)  # fmt: skip
def test_a_path_that_nvlink_hides_is_bounded_by_the_numa_nodes(
    numas: card_tree.Numas, expected: set[object]
) -> None:
    assert shape(card_tree.build(4, NVLINKED, numas)) == (60, frozenset(expected))


def test_a_path_that_nvlink_hides_is_taken_from_where_it_is_known() -> None:
    paths = grouped(2, 2, across="SYS")
    assert card_tree.build(4, NVLINKED, (), paths) == card_tree.build(4, paths)


def test_nvlinked_cards_meet_over_a_third_that_is_nearer_to_both() -> None:
    links = symmetric(3, {(0, 1): "NV4", (0, 2): "PHB", (1, 2): "PHB"})
    assert shape(card_tree.build(3, links)) == (60, frozenset({(30, frozenset({0, 1, 2}))}))
