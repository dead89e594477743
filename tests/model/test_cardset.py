"""The best n cards, against trying all of them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model import cardset
from gpustack.model.topology import Level, Links, parse_link
from tests.model.machines import grouped, link_matrices


def brute_force(question: cardset.Question) -> tuple[int, ...] | None:
    """Return the best of all subsets by the stated objective."""

    def joined(cards: tuple[int, ...]) -> bool:
        pairs = itertools.combinations(cards, 2)
        return all(question.joins[a] >> b & 1 for a, b in pairs)

    forced = set(cardset.bits(question.forced))
    every = itertools.combinations(cardset.bits(question.candidates), question.count)
    allowed = [cards for cards in every if forced <= set(cards) and joined(cards)]
    return min(allowed, key=lambda cards: objective(question, cards), default=None)


def objective(question: cardset.Question, cards: tuple[int, ...]) -> tuple[object, ...]:
    pairs = [parse_link(question.links[a][b]) for a, b in itertools.combinations(cards, 2)]
    rest = [card for card in cardset.bits(question.free) if card not in cards]
    left = [parse_link(question.links[a][b]).level for a, b in itertools.combinations(rest, 2)]
    near = [sum(level <= most for level in left) for most in list(Level)[1:]]
    return (
        max((pair.level for pair in pairs), default=Level.SELF),
        sum(pair.cost for pair in pairs),
        near if question.spread else [-count for count in near],
        cards,
    )


@st.composite
def questions(draw: st.DrawFn) -> cardset.Question:
    size = draw(st.integers(1, 8))
    # Few tokens make twins and ties, which is where a search goes wrong.
    tokens = draw(st.sampled_from([("PIX", "SYS"), ("NV12",), ("NV1", "NV2", "PIX", "PHB", "SYS")]))
    links = draw(link_matrices(size, tokens))
    everything = (1 << size) - 1
    free = draw(st.integers(0, everything))
    candidates = free & draw(st.one_of(st.just(everything), st.integers(0, everything)))
    forced = candidates & draw(st.sampled_from([0, 0, 1, 3]))
    limit = draw(st.sampled_from([Level.SYS, Level.SYS, Level.PXB, Level.NVLINK]))
    joins = tuple(
        sum(1 << b for b in range(size) if parse_link(links[a][b]).level <= limit)
        for a in range(size)
    )
    count = draw(st.integers(max(1, forced.bit_count()), size))
    return cardset.Question(
        links=links,
        free=free,
        candidates=candidates,
        count=count,
        joins=joins,
        forced=forced,
        spread=draw(st.booleans()),
    )


@given(questions())
def test_the_best_set_is_the_one_that_trying_all_finds(question: cardset.Question) -> None:
    assert cardset.best(question) == brute_force(question)


@given(questions())
def test_the_list_of_all_sets_begins_with_the_best_and_goes_on_in_order(
    question: cardset.Question,
) -> None:
    listed = cardset.every(question, (0,) * len(question.links))
    assert listed[:1] == [cards for cards in [brute_force(question)] if cards is not None]
    order = [objective(question, cards) for cards in listed]
    assert order == sorted(order)


@given(questions())
def test_cards_of_different_marks_are_never_taken_for_each_other(
    question: cardset.Question,
) -> None:
    listed = cardset.every(question, tuple(range(len(question.links))))
    forced = set(cardset.bits(question.forced))
    expected = {
        cards
        for cards in itertools.combinations(cardset.bits(question.candidates), question.count)
        if forced <= set(cards)
        and all(question.joins[a] >> b & 1 for a, b in itertools.combinations(cards, 2))
    }
    assert set(listed) == expected
    assert len(listed) == len(expected)


def ask(links: Links, count: int, **other: object) -> tuple[int, ...] | None:
    everything = (1 << len(links)) - 1
    fields: dict[str, object] = {
        "free": everything,
        "candidates": everything,
        "joins": (everything,) * len(links),
        **other,
    }
    return cardset.best(cardset.Question(links=links, count=count, **fields))  # type: ignore[arg-type]


def test_one_card_breaks_the_smallest_group() -> None:
    assert ask(grouped(4, 3), 1) == (4,)


def test_a_card_that_hangs_alone_under_a_high_node_goes_first() -> None:
    # Five cards under one socket, of which card 4 shares no switch; four on the other socket.
    def token(a: int, b: int) -> str:
        if a == b:
            return "X"
        if (a < 5) != (b < 5):
            return "SYS"
        return "NODE" if 4 in {a, b} else "PIX"

    links = tuple(tuple(token(a, b) for b in range(9)) for a in range(9))
    assert ask(links, 1) == (4,)


def test_spread_takes_one_card_from_the_largest_group() -> None:
    assert ask(grouped(3, 4), 1, spread=True) == (3,)


def test_more_nvlinks_are_nearer() -> None:
    links = (
        ("X", "NV1", "NV1", "NV2"),
        ("NV1", "X", "NV2", "NV1"),
        ("NV1", "NV2", "X", "NV1"),
        ("NV2", "NV1", "NV1", "X"),
    )
    assert ask(links, 2) == (0, 3)


@pytest.mark.parametrize("count", [1, 8, 16])
def test_a_machine_on_which_all_pairs_are_alike_gives_its_lowest_cards(count: int) -> None:
    assert ask(grouped(16, within="NV18"), count) == tuple(range(count))


def test_there_is_no_set_of_more_cards_than_there_are() -> None:
    assert ask(grouped(3, 4), 8) is None
