"""The log of the last decisions: the outcomes and fields that it keeps."""

from collections.abc import Mapping
from typing import Any

import pytest

from extender.observability.decision_log import DecisionLog, DecisionRecord
from extender.observability.outcome_recorder import OutcomeRecorder
from extender.verbs.outcome import FITS, NOT_OURS, Outcome
from gpustack.model.refusal import Reason
from gpustack.model.request import ContainerRequest, PodRequest
from gpustack.wire.extender_v1 import PodName
from tests.extender.states import waiting

ASKED = PodRequest(containers=(ContainerRequest(name="main", index=0, cores=50, memory_units=8),))
POD = waiting("p", ASKED)
REASONS: Mapping[Reason | None, int] = {Reason.NO_CARDS: 2, None: 1}


def added(decisions: DecisionLog, code: str) -> DecisionRecord:
    outcome = Outcome(pod=POD, code=code, answer=b"", reasons=REASONS)
    decisions.add("filter", outcome, 2.5)
    return decisions.last[0]


def recorded(
    outcome: Outcome, waits: list[float] | None = None
) -> tuple[list[DecisionRecord], list[str]]:
    """The records and counts of an outcome; how long its pod waited comes to ``waits``."""
    counted: list[str] = []
    decisions = DecisionLog()
    recorder = OutcomeRecorder(
        count=counted.append,
        decisions=decisions,
        waited=([] if waits is None else waits).append,
        now_ns=lambda: 9_500_000_000,
        write_event=lambda _pod, _outcome: None,
    )
    recorder.record("filter", outcome, 2.5)
    return decisions.last, counted


def test_a_decision_counts_the_nodes_and_their_reasons() -> None:
    found = added(DecisionLog(now_ns=lambda: 7), FITS)
    assert (found.nodes, found.reasons, found.time_ns) == (3, {"NoCards": 2}, 7)
    assert found.seconds == 2.5


@pytest.mark.parametrize(
    ("outcome", "kept", "counted"),
    [
        ({"code": FITS}, 1, []),
        ({"code": Reason.NO_CARDS}, 1, ["NoCards"]),
        ({"code": ""}, 0, []),
        ({"code": NOT_OURS, "pod": waiting("p", None)}, 0, [NOT_OURS]),
    ],
)
def test_only_decisions_about_gpus_are_kept(
    outcome: dict[str, Any], kept: int, counted: list[str]
) -> None:
    last, found = recorded(Outcome(**{"pod": POD, "answer": b"", **outcome}))
    assert (len(last), found) == (kept, counted)


def test_a_call_without_a_decision_is_kept_with_its_error() -> None:
    name = PodName(namespace="default", name="p", uid="p")
    message = "no decision within 3 s"
    last, counted = recorded(Outcome(pod=name, code="TooLate", answer=b"", message=message))
    (found,) = last
    assert (found.outcome, found.message, found.uid) == ("TooLate", message, "p")
    assert counted == ["TooLate"]


@pytest.mark.parametrize("outcome", ["NoVictims", "TooLate"])
def test_a_refusal_stands_until_some_node_has_room(outcome: str) -> None:
    decisions = DecisionLog()
    refusal = added(decisions, "NoWholeCard")
    added(decisions, outcome)
    (found,) = decisions.refusals(["p", "other"]).values()
    assert (found.number, found.request) == (refusal.number, None)
    added(decisions, FITS)
    assert decisions.refusals(["p"]) == {}


@pytest.mark.parametrize(
    ("code", "created_ns", "expected"),
    [
        ("Bound", 2_000_000_000, [7.5]),
        ("Placed", 2_000_000_000, [7.5]),
        ("Bound", 0, []),  # nobody knows when it was created
        ("Bound", 10_000_000_000, [0.0]),  # the API server's clock is ahead
        (Reason.NO_CARDS, 2_000_000_000, []),
    ],
)
def test_a_pod_has_waited_once_its_cards_are_decided(
    code: str, created_ns: int, expected: list[float]
) -> None:
    waits: list[float] = []
    pod = waiting("p", None, created_ns=created_ns)
    recorded(Outcome(pod=pod, code=code, answer=b""), waits)
    assert waits == expected
