"""The record of the last decisions: what is kept of which call."""

import functools
import threading

import pytest

from extender.cache.pods import PodState
from extender.errors import CannotDecide
from extender.observability.decision_log import DecisionLog, DecisionRecord
from gpustack.model.refusal import Reason
from gpustack.wire.extender_v1 import PodName
from tests.extender.calls import at_once
from tests.extender.states import waiting

POD = waiting("p", None)


def told(decisions: DecisionLog, outcome: str, pod: PodState = POD) -> DecisionRecord:
    with decisions.call("filter"):
        decisions.tell(pod, outcome, reasons={Reason.NO_CARDS: 2, None: 1})
    return decisions.last[0]


def test_a_decision_counts_the_nodes_and_their_reasons() -> None:
    found = told(DecisionLog(now_ns=lambda: 7), "Fits")
    assert (found.nodes, found.reasons, found.time_ns) == (3, {"NoCards": 2}, 7)


def test_the_time_is_that_of_the_whole_call() -> None:
    ticks = iter([10.0, 12.5])
    assert told(DecisionLog(clock=lambda: next(ticks)), "Fits").seconds == 2.5


def test_a_call_of_which_nothing_is_told_leaves_nothing() -> None:
    decisions = DecisionLog()
    with decisions.call("filter"):
        pass
    decisions.tell(POD, "Fits")  # nobody has asked
    assert decisions.last == []


def test_an_error_keeps_what_was_known_of_the_pod() -> None:
    decisions = DecisionLog()
    with decisions.call("bind"):
        decisions.tell(POD, "Fits")
        name = PodName(namespace="default", name="p", uid="p")
        decisions.fail(name, CannotDecide("TooLate", "no decision within 3 s"))
    (found,) = decisions.last
    assert (found.outcome, found.message, found.uid) == ("TooLate", "no decision within 3 s", "p")


def test_what_a_call_was_told_is_kept_when_it_fails_otherwise() -> None:
    decisions = DecisionLog()

    def ask() -> None:
        with decisions.call("filter"):
            decisions.tell(POD, "Fits")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        ask()
    assert len(decisions.last) == 1


@pytest.mark.parametrize("outcome", ["NoVictims", "TooLate"])
def test_a_refusal_stands_until_some_node_has_room(outcome: str) -> None:
    decisions = DecisionLog()
    refusal = told(decisions, "NoWholeCard")
    told(decisions, outcome)
    assert decisions.refusals(["p", "other"]) == {"p": refusal}
    told(decisions, "Fits")
    assert decisions.refusals(["p"]) == {}


def test_calls_at_the_same_time_do_not_mix() -> None:
    decisions = DecisionLog()
    both = threading.Barrier(2, timeout=10)

    def ask(name: str) -> None:
        with decisions.call(name):
            both.wait()
            decisions.tell(waiting(name, None), "Fits")
            both.wait()

    at_once([functools.partial(ask, name) for name in ("filter", "bind")])
    assert {(each.verb, each.pod) for each in decisions.last} == {
        ("filter", "filter"),
        ("bind", "bind"),
    }
