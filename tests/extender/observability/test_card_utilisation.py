"""How long a reading counts, and how often a node without an answer is asked."""

from extender.observability.card_utilisation import FRESH_SECONDS, CardUtilisation
from tests.adapters.web.reading import Clock
from tests.extender.observability.agents import node

BUSY = {"GPU-gpu1-0": 0.25, "GPU-gpu1-1": 0.75}


def test_a_reading_is_known_for_two_minutes_and_a_half() -> None:
    clock = Clock()
    usage = CardUtilisation(clock)
    usage.keep("gpu1", BUSY)
    clock.now = FRESH_SECONDS
    assert usage.busy(node("gpu1")) == BUSY
    assert usage.mean([node("gpu1"), node("gpu2")]) == 0.5
    clock.now += 1
    assert usage.busy(node("gpu1")) == {}
    assert usage.mean([node("gpu1")]) is None


def test_a_missed_answer_keeps_the_one_before() -> None:
    usage = CardUtilisation(Clock())
    usage.keep("gpu1", BUSY)
    usage.miss("gpu1", "gone")
    assert usage.busy(node("gpu1")) == BUSY
    assert usage.problem == "nodes=1 first=gpu1 error=gone"
    usage.keep("gpu1", {})
    assert (usage.busy(node("gpu1")), usage.problem) == ({}, "")


def test_a_node_without_answers_is_asked_less_often() -> None:
    usage = CardUtilisation(Clock())
    rounds = []
    for number in range(40):
        if "gpu1" in usage.begin_round(["gpu1"]):
            rounds.append(number)
            usage.miss("gpu1", "gone")
    assert rounds == [0, 1, 3, 7, 15, 23, 31, 39]
    usage.keep("gpu1", BUSY)
    assert "gpu1" in usage.begin_round(["gpu1"])


def test_nothing_is_kept_of_a_node_that_is_gone() -> None:
    usage = CardUtilisation(Clock())
    usage.keep("gpu1", BUSY)
    usage.miss("gpu2", "gone")
    usage.begin_round(["gpu3"])
    assert (usage.busy(node("gpu1")), usage.problem) == ({}, "")
