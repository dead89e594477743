"""The score of a set of cards: one number that orders sets as the stated rules do."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.search import card_set_search, objective
from tests.model.search import test_card_set_search
from tests.model.search.test_card_set_search import questions


def score(question: card_set_search.CardSetQuery, cards: tuple[int, ...]) -> int:
    machine = objective.machine(question.links, question.spread)
    singles = objective.singles(machine, question.free, spread=question.spread)
    pairs = itertools.combinations(cards, 2)
    return sum(singles[card] for card in cards) + sum(machine.pairs[a][b] for a, b in pairs)


@given(questions(), st.data())
def test_the_better_of_two_sets_has_the_lower_score(
    question: card_set_search.CardSetQuery, data: st.DataObject
) -> None:
    sets = list(itertools.combinations(card_set_search.bits(question.free), question.count))
    if not sets:
        return
    one, two = data.draw(st.sampled_from(sets)), data.draw(st.sampled_from(sets))
    by_rule = [test_card_set_search.objective(question, cards)[1:] for cards in (one, two)]
    by_score = [score(question, cards) for cards in (one, two)]
    assert (by_rule[0] < by_rule[1]) == (by_score[0] < by_score[1])
    assert (one == two) == (by_score[0] == by_score[1])


@given(questions(), st.data())
def test_the_cost_of_a_set_is_read_off_its_score(
    question: card_set_search.CardSetQuery, data: st.DataObject
) -> None:
    sets = list(itertools.combinations(card_set_search.bits(question.free), question.count))
    if not sets:
        return
    cards = data.draw(st.sampled_from(sets))
    machine = objective.machine(question.links, question.spread)
    cost = test_card_set_search.objective(question, cards)[1]
    assert objective.least_cost(machine, score(question, cards)) == cost
