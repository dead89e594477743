"""What the node's annotation gets to say: what stands, and what was found ten minutes ago."""

import pytest

from gpustack.agent.violations.reactions import DAMAGED, EXCEEDED, Finding, OnViolation
from gpustack.agent.violations.standing import StandingViolations
from gpustack.wire.violations import MOST, ShareViolation
from tests.agent.activity.activity import Stage
from tests.agent.violations.test_reactions import CAUSES, begin, each_finding, look

TAKER = "uid-taker", "taker"
KEPT = 600


def listed(stage: Stage) -> tuple[ShareViolation, ...]:
    return stage.escapes.standing.listed


@each_finding
def test_each_finding_of_a_container_is_listed_as_its_own(stage: Stage, finding: Finding) -> None:
    CAUSES[finding.found](stage, begin(stage, OnViolation.REPORT))
    look(stage, 5)
    shown = {(each.uid, each.container, each.reason) for each in listed(stage)}
    is_of_the_node = finding.reason == "UnexplainedUse"
    assert shown == (set() if is_of_the_node else {(*TAKER, finding.reason)})


def test_what_is_put_right_is_listed_for_ten_minutes(stage: Stage) -> None:
    begin(stage, OnViolation.REPORT)
    (stage.folders.path("uid-taker", "taker") / "ledger").chmod(0o600)
    look(stage, 2)
    (found,) = listed(stage)
    assert (found.reason, found.since) == (DAMAGED, "1970-01-01T00:00:12Z")
    look(stage, KEPT - 2)
    assert listed(stage) == (found,)
    look(stage, 3)
    assert listed(stage) == ()
    assert len(stage.events) == 1, "the Event says it once"


def test_a_container_that_is_gone_is_listed_no_more(stage: Stage) -> None:
    begin(stage, OnViolation.REPORT)
    stage.blank_ledger("taker")
    look(stage, 2)
    assert len(listed(stage)) == 1
    stage.records.remove("uid-taker")
    look(stage)
    assert listed(stage) == ()


class Watch:
    """Violations by a clock of seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.standing = StandingViolations(
            "api-{}".format, now=lambda: self.now, clock=lambda: self.now
        )

    def look(self, *found: str) -> tuple[ShareViolation, ...]:
        """Find these containers exceed their share a second later; returns what is listed."""
        self.now += 1
        for name in found:
            self.standing.found(("uid", name), EXCEEDED)
        self.standing.begin_look(frozenset(("uid", f"c{at}") for at in range(200)))
        return self.standing.listed


def test_one_that_comes_and_goes_stands_all_the_while() -> None:
    watch = Watch()
    first = watch.look("c1")
    for second in range(3 * KEPT):
        assert watch.look(*(["c1"] if second % 500 == 0 else [])) is first, second
    assert first[0].uid == "api-uid"


@pytest.mark.parametrize("count", [MOST, 2 * MOST])
def test_of_very_many_the_newest_are_listed(count: int) -> None:
    watch = Watch()
    for at in range(count):
        watch.look(f"c{at}")
    found = [each.container for each in watch.look()]
    assert found == [f"c{at}" for at in reversed(range(count - MOST, count))]
