"""The best set of n cards, compared with trying every set."""

import itertools
import pathlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.search import card_set_enumeration, card_set_search
from gpustack.model.search.budget import SearchBudget
from gpustack.model.topology.link_level import Level, Links, parse_link
from gpustack.wire.topo import parser
from tests.model import machines
from tests.model.machines import grouped, hierarchies, link_matrices

DATA = pathlib.Path(__file__).resolve().parents[2] / "data" / "topo"


def allowed(question: card_set_search.CardSetQuery) -> list[tuple[int, ...]]:
    """Return every set that meets the question."""

    def joined(cards: tuple[int, ...]) -> bool:
        pairs = itertools.combinations(cards, 2)
        return all(question.joins[a] >> b & 1 for a, b in pairs)

    forced = set(card_set_search.bits(question.forced))
    every = itertools.combinations(card_set_search.bits(question.candidates), question.count)
    return [cards for cards in every if forced <= set(cards) and joined(cards)]


def brute_force(question: card_set_search.CardSetQuery) -> tuple[int, ...] | None:
    """Return the best of all subsets by the stated objective."""
    return min(allowed(question), key=lambda cards: objective(question, cards), default=None)


def objective(question: card_set_search.CardSetQuery, cards: tuple[int, ...]) -> tuple[object, ...]:
    pairs = [parse_link(question.links[a][b]) for a, b in itertools.combinations(cards, 2)]
    rest = [card for card in card_set_search.bits(question.free) if card not in cards]
    left = [parse_link(question.links[a][b]).level for a, b in itertools.combinations(rest, 2)]
    near = [sum(level <= most for level in left) for most in list(Level)[1:]]
    return (
        max((pair.level for pair in pairs), default=Level.SELF),
        sum(pair.cost for pair in pairs),
        near if question.spread else [-count for count in near],
        cards,
    )


TOKENS = (("PIX", "SYS"), ("NV12",), ("NV1", "NV2", "PIX", "PHB", "SYS"), machines.TOKENS)
REAL = tuple(parser.parse(path.read_bytes()).links for path in sorted(DATA.glob("*.txt")))


def within(links: Links, limit: Level) -> tuple[int, ...]:
    """Return for each card the cards that are that near or nearer."""
    return tuple(
        sum(1 << at for at, token in enumerate(row) if parse_link(token).level <= limit)
        for row in links
    )


@st.composite
def matrices(draw: st.DrawFn, most: int = 10) -> Links:
    """Any matrix of few tokens (a search goes wrong at twins and ties), a tree or a machine."""
    kind = draw(st.sampled_from(("any", "any", "tree", "real")))
    if kind == "tree":
        return draw(hierarchies(most))[1]
    if kind == "real":
        return draw(st.sampled_from(REAL))
    size = draw(st.integers(1, most))
    return draw(link_matrices(size, draw(st.sampled_from(TOKENS))))


@st.composite
def questions(draw: st.DrawFn, most: int = 10) -> card_set_search.CardSetQuery:
    """Any question whose candidates are few enough to try all sets of them."""
    links = draw(matrices(most))
    size = len(links)
    everything = (1 << size) - 1
    free = draw(st.one_of(st.just(everything), st.integers(0, everything)))
    few = draw(st.sets(st.integers(0, size - 1), max_size=most))
    candidates = free if size <= most and draw(st.booleans()) else free & sum(1 << i for i in few)
    forced = candidates & draw(st.sampled_from([0, 0, 1, 3, everything]))
    limit = draw(st.sampled_from([Level.SYS, Level.SYS, Level.PXB, Level.NVLINK]))
    return card_set_search.CardSetQuery(
        links=links,
        free=free,
        candidates=candidates,
        count=draw(st.integers(max(1, forced.bit_count()), max(1, min(size, most)))),
        joins=within(links, limit),
        forced=forced,
        spread=draw(st.booleans()),
    )


def kind_of(
    question: card_set_search.CardSetQuery, marks: tuple[int, ...], cards: tuple[int, ...]
) -> object:
    """Return a set as the rest of a pod sees it: the marks and the partners of its cards."""
    return sorted((marks[card], question.joins[card] | 1 << card) for card in cards)


@given(questions())
def test_the_best_set_is_the_one_that_trying_all_finds(
    question: card_set_search.CardSetQuery,
) -> None:
    answer = card_set_search.best(question)
    assert answer.cards == brute_force(question)
    assert answer.gap is None


@given(st.randoms(use_true_random=True), st.sampled_from(TOKENS), st.booleans())
def test_the_best_set_of_each_size_is_found_on_a_machine_without_order(
    draw: random.Random, tokens: tuple[str, ...], spread: bool
) -> None:
    pairs = itertools.combinations(range(8), 2)
    links = machines.symmetric(8, {pair: draw.choice(tokens) for pair in pairs})
    for count in range(2, 8):
        assert ask(links, count, spread=spread) == brute_force(of_all(links, count, spread=spread))


@given(questions(most=8), st.integers(0, 60))
def test_a_search_that_is_stopped_says_how_much_better_a_set_could_be(
    question: card_set_search.CardSetQuery, looks: int
) -> None:
    expected = brute_force(question)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(card_set_search, "_MOST_LOOKS", looks)
        answer = card_set_search.search(question)
    if answer.gap is None:
        assert answer.cards == expected
        return
    if answer.cards is not None:
        assert expected is not None
        assert answer.cards in allowed(question)
    if expected is not None:
        level, cost = objective(question, expected)[:2]
        assert (answer.gap.level, answer.gap.cost) <= (level, cost)


@given(questions(most=8), st.data())
def test_the_other_sets_are_the_best_of_every_kind_in_order(
    question: card_set_search.CardSetQuery, data: st.DataObject
) -> None:
    size = len(question.links)
    marks = tuple(data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)))
    first = card_set_search.best(question)
    listed = [
        cards for cards in [first.cards] if cards is not None
    ] + list(card_set_enumeration.others(question, marks, first, SearchBudget()))  # fmt: skip
    expected: list[tuple[int, ...]] = []
    kinds: list[object] = []
    for cards in sorted(allowed(question), key=lambda cards: objective(question, cards)):
        kind = kind_of(question, marks, cards)
        if kind not in kinds:
            kinds.append(kind)
            expected.append(cards)
    assert listed == expected


@given(questions(most=8), st.integers(0, 40))
def test_a_stopped_listing_says_so_and_offers_the_smallest_cards_soon(
    question: card_set_search.CardSetQuery, looks: int
) -> None:
    marks = tuple(-card for card in range(len(question.links)))
    effort = SearchBudget(left=looks)
    first = card_set_search.best(question)
    listed = list(card_set_enumeration.others(question, marks, first, effort))
    assert set(listed) <= set(allowed(question))
    if effort.cut:
        free = card_set_search.bits(question.candidates & ~question.forced)[::-1]
        missing = question.count - question.forced.bit_count()
        smallest = tuple(sorted([*card_set_search.bits(question.forced), *free[:missing]]))
        assert (smallest in allowed(question)) == (smallest in [first.cards, *listed[:5]])
        assert set(effort.gaps) == set(listed)


def of_all(links: Links, count: int, **other: object) -> card_set_search.CardSetQuery:
    """Return the question for so many of all cards."""
    everything = (1 << len(links)) - 1
    fields: dict[str, object] = {
        "free": everything,
        "candidates": everything,
        "joins": (everything,) * len(links),
        **other,
    }
    return card_set_search.CardSetQuery(links=links, count=count, **fields)  # type: ignore[arg-type]


def ask(links: Links, count: int, **other: object) -> tuple[int, ...] | None:
    """Return the best of all cards."""
    return card_set_search.best(of_all(links, count, **other)).cards


def test_one_card_breaks_the_smallest_group() -> None:
    assert ask(grouped(4, 3), 1) == (4,)


def test_a_card_that_hangs_alone_under_a_high_node_goes_first() -> None:
    # Five cards under one socket, card 4 under no switch of the others; four on the other socket.
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


def test_no_set_has_more_cards_than_the_machine() -> None:
    assert ask(grouped(3, 4), 8) is None


def test_a_machine_too_hard_to_search_is_answered_soon_and_with_a_gap() -> None:
    # Each of 40 cards is joined to half of the others, at random: no set of 12 tells its worth.
    draw = random.Random(4)  # noqa: S311  # no secret
    tokens = {pair: draw.choice(("NV1", "SYS")) for pair in itertools.combinations(range(40), 2)}
    links = machines.symmetric(40, tokens)
    answer = card_set_search.best(of_all(links, 12))
    assert answer.cards is not None
    assert len(answer.cards) == 12
    assert answer.gap is not None
    assert answer.looks < 25_000
