"""What the agent does about each finding of `reactions.FINDINGS`, and what it does to no one."""

from collections.abc import Callable, Mapping

import pytest

from gpustack.agent.violations.reactions import (
    ABOVE,
    DAMAGED,
    EXCEEDED,
    FINDINGS,
    UNHOOKED,
    Finding,
    OnViolation,
)
from tests.agent.activity.activity import CARD, Stage
from tests.agent.activity.test_gpu_time_accounts import Second, wait_ns

MIB = 1 << 20
LOOKS = 5


def unhooked(stage: Stage, container: str) -> None:
    stage.write_start(stage.process(container, memory_bytes=0, maps=()), 7)


def foreign(stage: Stage, container: str) -> None:
    pid = stage.process(container, memory_bytes=0, maps=("hook", "~limits", "activity", "ledger"))
    stage.write_start(pid, 7)


def uncounted(stage: Stage, container: str) -> None:
    stage.write_pages(stage.process(container, memory_bytes=0), 9)


def above(stage: Stage, container: str) -> None:
    stage.process(container, memory_bytes=3 << 30)


def with_noise_in_the_ledger(stage: Stage, _: str) -> None:
    stage.blank_ledger("taker")


def with_another_mode(stage: Stage, _: str) -> None:
    (stage.folders.path("uid-taker", "taker") / "ledger").chmod(0o600)


def exceeding(stage: Stage, container: str) -> None:
    pid = stage.process(container, memory_bytes=0)
    second = Second(stage)
    for _ in range(10):
        second.passes((pid, 100))


def by_an_old_page(stage: Stage, _: str) -> None:
    for _turn in range(LOOKS):
        stage.write_ledger("taker", last_want_ns=stage.now_ns, page=1)
        look(stage)


def with_nobodys_memory(stage: Stage, _: str) -> None:
    stage.nvml.unowned[CARD.uuid] = 5 << 30


def on_a_card_of_others(stage: Stage, _: str) -> None:
    sidecar = stage.cri.run("uid-taker", "sidecar")
    stage.process(sidecar, memory_bytes=60 << 30, maps=())


CAUSES: Mapping[str, Callable[[Stage, str], None]] = {
    each.found: cause
    for each, cause in zip(
        FINDINGS,
        (
            unhooked,
            foreign,
            uncounted,
            above,
            with_noise_in_the_ledger,
            with_another_mode,
            exceeding,
            by_an_old_page,
            with_nobodys_memory,
            on_a_card_of_others,
        ),
        strict=True,
    )
}
"""What a container does for each finding: it gets the stage and the container's ID."""

each_finding = pytest.mark.parametrize(
    "finding", FINDINGS, ids=lambda each: each.found.replace(" ", "-")
)


def begin(stage: Stage, on_violation: OnViolation) -> str:
    """Start two containers that may burst, with idle processes; returns one's ID."""
    stage.on_violation = on_violation
    stage.start_sampler()
    container = stage.share("taker", burst=50)
    stage.share("honest", burst=50)
    for name in ("taker", "honest"):
        stage.write_ledger(name)
    look(stage)
    assert stage.card("taker").burst_allowed
    return container


def look(stage: Stage, times: int = 1) -> None:
    for _ in range(times):
        stage.now_ns += 1_000_000_000
        stage.sampler.look()


@each_finding
def test_bursts_end_for_what_the_table_says_and_for_nobody_else(
    stage: Stage, finding: Finding
) -> None:
    CAUSES[finding.found](stage, begin(stage, OnViolation.THROTTLE))
    look(stage, LOOKS)
    assert {each.reason for each in stage.events} == {finding.reason}
    assert stage.card("taker").burst_allowed == (not finding.acts)
    assert not stage.escapes.reactions.holds(("uid-honest", "honest"))
    assert stage.killed == []


@each_finding
def test_a_pod_is_killed_once_for_what_the_table_says(stage: Stage, finding: Finding) -> None:
    CAUSES[finding.found](stage, begin(stage, OnViolation.KILL))
    look(stage, LOOKS)
    assert stage.killed == [("taker", finding.reason)] * bool(finding.acts)


@each_finding
def test_nothing_but_an_event_comes_where_violations_are_reported(
    stage: Stage, finding: Finding
) -> None:
    CAUSES[finding.found](stage, begin(stage, OnViolation.REPORT))
    look(stage, LOOKS)
    assert {each.reason for each in stage.events} == {finding.reason}
    assert stage.card("taker").burst_allowed
    assert (stage.card("taker").paid_until_ns, stage.killed) == (0, [])


def test_a_false_sum_ends_bursts(stage: Stage) -> None:
    begin(stage, OnViolation.THROTTLE)
    stage.write_ledger("taker", used_bytes=64 * MIB)
    stage.write_sum("taker", 0)
    look(stage, 2)
    assert {each.reason for each in stage.events} == {DAMAGED}
    assert not stage.card("taker").burst_allowed


def test_a_count_that_may_be_wrong_ends_no_bursts_and_kills_nobody(stage: Stage) -> None:
    pid = stage.process(begin(stage, OnViolation.KILL), memory_bytes=0)
    second = Second(stage, collects=False)
    for _ in range(10):
        second.passes((pid, 100))
    assert {each.reason for each in stage.events} == {EXCEEDED}
    assert stage.card("taker").burst_allowed
    assert (wait_ns(stage, "taker"), stage.killed) == (0, [])


def test_a_process_is_judged_at_the_second_look_at_it(stage: Stage) -> None:
    """A later one of its PID is another: it may be a neighbour's, which the driver never saw."""
    container = begin(stage, OnViolation.KILL)
    pid = stage.process(container, memory_bytes=0, maps=())
    for started in range(5):
        stage.write_start(pid, started)
        look(stage)
        assert stage.killed == []
    look(stage)
    assert stage.killed == [("taker", UNHOOKED)]


def test_a_pod_that_lives_on_is_killed_again_after_a_minute(stage: Stage) -> None:
    """The write that fails it may have been given up: the API server was away for long."""
    stage.process(begin(stage, OnViolation.KILL), memory_bytes=3 << 30)
    look(stage, 50)
    assert stage.killed == [("taker", ABOVE)]
    look(stage, 60)
    assert stage.killed == [("taker", ABOVE)] * 2


def test_bursts_come_back_a_minute_after_the_violation(stage: Stage) -> None:
    pid = stage.process(begin(stage, OnViolation.THROTTLE), memory_bytes=3 << 30)
    look(stage, LOOKS)
    stage.end(pid)
    look(stage, 60)
    assert not stage.card("taker").burst_allowed
    look(stage, 10)
    assert stage.card("taker").burst_allowed
    assert {each.reason for each in stage.events} == {ABOVE}


def test_a_container_that_is_gone_is_forgotten(stage: Stage) -> None:
    stage.process(begin(stage, OnViolation.KILL), memory_bytes=3 << 30)
    look(stage, LOOKS)
    stage.records.remove("uid-taker")
    stage.folders.remove("uid-taker")
    look(stage)
    assert not stage.escapes.reactions.holds(("uid-taker", "taker"))


@pytest.mark.parametrize("cause", [unhooked, foreign])
def test_a_process_that_says_its_program_lies_elsewhere_is_acted_on(
    stage: Stage, cause: Callable[[Stage, str], None]
) -> None:
    """Any process may (PR_SET_MM_MAP of prctl(2)); its PID and its start stay."""
    cause(stage, begin(stage, OnViolation.KILL))
    (pid,) = (each.pid for each in stage.nvml.running[CARD.uuid])
    for code in range(1, LOOKS):
        stage.write_start(pid, 7, code=code)
        look(stage)
    assert [pod for pod, _ in stage.killed] == ["taker"]
