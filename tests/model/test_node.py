"""Units, cards, nodes, model names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.model_name import label_safe_model, model_matches
from gpustack.model.node import Card, Node, arrange
from gpustack.model.units import MEMORY_UNIT_BYTES, memory_units
from gpustack.model.use import Use
from tests.model.machines import card, grouped

MIB = 1 << 20
P40_BYTES = 24451 * MIB  # what a driver reports of a Tesla P40


def test_units_that_straddle_two_cards_are_not_capacity() -> None:
    cards = [card(minor, memory_bytes=P40_BYTES) for minor in range(7)]
    assert sum(each.memory_units for each in cards) == 665
    # The original's sum of bytes, floored once.
    assert 7 * P40_BYTES // MEMORY_UNIT_BYTES == 668


@given(st.integers(0, 1 << 48))
def test_memory_units_never_promise_more_bytes_than_a_card_has(size: int) -> None:
    units = memory_units(size)
    assert units * MEMORY_UNIT_BYTES <= size < (units + 1) * MEMORY_UNIT_BYTES


def test_a_negative_memory_size_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        memory_units(-1)


@pytest.mark.parametrize(
    ("model", "label"),
    [
        ("NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB"),
        ("Tesla P40", "Tesla-P40"),
        ("NVIDIA RTX 6000 Ada (Server) ", "NVIDIA-RTX-6000-Ada-Server"),
        ("", ""),
        ("x" * 70, "x" * 63),
        ("a" * 62 + " b", "a" * 62),
    ],
)
def test_a_model_name_becomes_a_valid_label_and_keeps_its_words(model: str, label: str) -> None:
    assert label_safe_model(model) == label


@pytest.mark.parametrize(
    ("pattern", "model", "matches"),
    [
        ("A100", "NVIDIA A100-SXM4-80GB", True),
        ("a100", "NVIDIA A100-SXM4-80GB", True),
        ("nvidia-a100-sxm4-80gb", "NVIDIA A100-SXM4-80GB", True),
        ("A10", "NVIDIA A100-SXM4-80GB", False),
        ("A100-SXM4", "NVIDIA A100-SXM4-80GB", False),
        ("P40", "Tesla P40", True),
        ("", "Tesla P40", False),
        ("P40", "", False),
    ],
)
def test_a_model_matches_by_its_full_name_or_by_one_of_its_words(
    pattern: str, model: str, matches: bool
) -> None:
    assert model_matches(pattern, model) is matches


def test_arrange_sorts_cards_and_their_links_together() -> None:
    cards = (card(5), card(2), card(3))
    links = (("X", "PIX", "SYS"), ("PIX", "X", "SYS"), ("SYS", "SYS", "X"))
    sorted_cards, sorted_links = arrange(cards, links)
    assert [each.minor for each in sorted_cards] == [2, 3, 5]
    assert sorted_links == (("X", "SYS", "PIX"), ("SYS", "X", "SYS"), ("PIX", "SYS", "X"))


@pytest.mark.parametrize(
    ("cards", "links", "uses"),
    [
        ((card(1), card(0)), (), ()),
        ((card(0), card(0)), (), ()),
        ((card(0),), grouped(2), ()),
        ((card(0),), (), (Use(), Use())),
    ],
)
def test_a_node_of_inconsistent_shape_is_refused(
    cards: tuple[Card, ...], links: tuple[tuple[str, ...], ...], uses: tuple[Use, ...]
) -> None:
    with pytest.raises(ValueError, match="node 'n'"):
        Node(name="n", cards=cards, links=links, uses=uses)


def test_pairs_of_unknown_links_count_as_the_farthest() -> None:
    bare = Node(name="n", cards=(card(0), card(1)))
    assert (bare.link(0, 1).token, bare.link(1, 1).token) == ("SYS", "X")
