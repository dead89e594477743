"""The agent's own account of GPU time: who comes into debt, and until when launches wait."""

import pytest

from gpustack.agent.violations.reactions import EXCEEDED
from tests.agent.activity.activity import Stage

SECOND_NS = 1_000_000_000
PERCENT_NS = SECOND_NS // 100


class Second:
    """Lets seconds pass in which processes use a card.

    Args:
        stage: has the processes.
        collects: whether the driver's count is said to be good.
    """

    def __init__(self, stage: Stage, *, collects: bool = True) -> None:
        self._stage = stage
        stage.start_sampler(collects_gpu_time=collects)
        stage.nvml.span_us = 1_000_000
        stage.sampler.look()

    def passes(self, *percents: tuple[int, int]) -> None:
        """A PID and what it used, percent."""
        self._stage.now_ns += SECOND_NS
        for pid, percent in percents:
            self._stage.nvml.busy_ns[pid] = percent * PERCENT_NS
        self._stage.sampler.look()


def reasons(stage: Stage) -> list[str]:
    return [each.reason for each in stage.events if each.reason == EXCEEDED]


def wait_ns(stage: Stage, name: str) -> int:
    until_ns = stage.card(name).paid_until_ns
    return until_ns - stage.now_ns if until_ns else 0


@pytest.mark.long
def test_a_share_with_three_points_more_never_waits(stage: Stage) -> None:
    pid = stage.process(stage.share("one", cores=30), memory_bytes=0)
    second = Second(stage)
    for _ in range(600):
        second.passes((pid, 33))
        assert wait_ns(stage, "one") == 0
    assert reasons(stage) == []


@pytest.mark.long
def test_uneven_use_that_is_a_share_on_average_never_waits(stage: Stage) -> None:
    pid = stage.process(stage.share("one", cores=30), memory_bytes=0)
    second = Second(stage)
    for _ in range(60):
        for percent in (90, 60, 30, 0, 0, 0):
            second.passes((pid, percent))
            assert wait_ns(stage, "one") == 0


@pytest.mark.long
@pytest.mark.parametrize("cores", [5, 20, 80])
def test_one_that_always_takes_the_card_has_its_share_in_the_end(stage: Stage, cores: int) -> None:
    """It uses the card whenever its launches don't wait, as if it knew how."""
    pid = stage.process(stage.share("one", cores=cores), memory_bytes=0)
    second = Second(stage)
    used = 0
    for _ in range(600):
        free_ns = max(0, SECOND_NS - wait_ns(stage, "one"))
        used += free_ns * 100 // SECOND_NS
        second.passes((pid, free_ns * 100 // SECOND_NS))
    assert used <= 600 * (cores + 3) + 600, "6 s beyond its share and three points"
    assert used >= 600 * cores / 3
    assert reasons(stage) == [EXCEEDED]


def test_a_process_that_has_ended_is_counted_for_its_container(stage: Stage) -> None:
    container = stage.share("one", cores=30)
    second = Second(stage)
    for _ in range(10):
        pid = stage.process(container, memory_bytes=0)
        second.passes((pid, 0))
        stage.end(pid)
        second.passes((pid, 100))
    assert stage.card("one").busy_ns == 10 * SECOND_NS
    assert reasons(stage) == [EXCEEDED]


def test_short_processes_are_looked_for_once_time_is_unexplained(stage: Stage) -> None:
    container = stage.share("one", cores=30)
    second = Second(stage)
    for _ in range(2):
        pid = stage.process(container, memory_bytes=0)
        stage.usage.look_for_short_processes()
        stage.end(pid)
        second.passes((pid, 100))
    assert stage.card("one").busy_ns == SECOND_NS, "nothing called for a look at the first"


@pytest.mark.long
def test_a_burst_may_have_the_card_and_late_windows_of_it(stage: Stage) -> None:
    """The windows that a look gets have ended a second before it."""
    pid = stage.process(stage.share("elastic", cores=20, burst=100), memory_bytes=0)
    stage.share("hard")
    second = Second(stage)
    stage.nvml.behind_us = 1_000_000
    late = 0
    for number in range(300):
        busy = number % 6 > 2  # a burst of three seconds, and then its share
        stage.write_ledger("hard", last_want_ns=0 if busy else stage.now_ns)
        stage.sampler.decide_bursts()
        second.passes((pid, late))
        late = 100 if busy else 20
        assert wait_ns(stage, "elastic") == 0


def test_a_debt_outlives_a_restart_of_the_agent(stage: Stage) -> None:
    pid = stage.process(stage.share("one", cores=30), memory_bytes=0)
    second = Second(stage)
    while not wait_ns(stage, "one"):
        second.passes((pid, 100))
    before = stage.card("one")
    assert before.debt_ns > 0
    stage.start_sampler(collects_gpu_time=True)
    stage.sampler.look()
    assert stage.card("one").paid_until_ns == before.paid_until_ns
    assert stage.card("one").debt_ns == before.debt_ns


def test_a_debt_ends_with_the_boot_that_it_was_made_in(stage: Stage) -> None:
    """A page on the host's disk has times of a clock that begins anew."""
    pid = stage.process(stage.share("one", cores=30), memory_bytes=0)
    stage.now_ns = 100 * 24 * 3600 * SECOND_NS
    second = Second(stage)
    while not wait_ns(stage, "one"):
        second.passes((pid, 100))
    stage.now_ns = 60 * SECOND_NS
    stage.start_sampler(collects_gpu_time=True)
    stage.sampler.look()
    assert wait_ns(stage, "one") == 0


def test_a_count_that_is_not_known_to_be_good_holds_back_none(stage: Stage) -> None:
    pid = stage.process(stage.share("one", cores=30), memory_bytes=0)
    second = Second(stage, collects=False)
    for _ in range(20):
        second.passes((pid, 100))
        assert stage.card("one").paid_until_ns == 0
    assert reasons(stage) == [EXCEEDED]
    assert "nothing is held back" in str(stage.events[-1].message)


def test_time_that_a_sample_gives_to_the_wrong_tenant_is_not_reported(stage: Stage) -> None:
    """All of a card's time is told as one tenant's, and the ledgers say whose it was."""
    victim = stage.process(stage.share("victim", cores=10), memory_bytes=0)
    stage.share("other", cores=80)
    second = Second(stage, collects=False)
    for number in range(60):
        stage.write_ledger("victim", busy_ns=number * 10 * PERCENT_NS)
        stage.write_ledger("other", busy_ns=number * 80 * PERCENT_NS)
        second.passes((victim, 90))
    assert reasons(stage) == []


def test_a_ledger_that_claims_more_explains_no_others_time(stage: Stage) -> None:
    taker = stage.process(stage.share("taker", cores=20), memory_bytes=0)
    stage.share("friend", cores=1)
    second = Second(stage)
    for number in range(10):
        stage.write_ledger("friend", busy_ns=number * 200 * PERCENT_NS)
        second.passes((taker, 100))
    assert wait_ns(stage, "taker") > 0


@pytest.mark.parametrize("is_good", [True, False])
def test_another_containers_claim_hides_time_from_a_count_that_may_err(
    stage: Stage, *, is_good: bool
) -> None:
    """`docs/isolation.md` says so: where the count may err, a claim may be the truth."""
    taker = stage.process(stage.share("taker", cores=20), memory_bytes=0)
    stage.process(stage.share("friend", cores=20), memory_bytes=0)
    stage.write_ledger("friend")
    second = Second(stage, collects=is_good)
    for number in range(1, 21):
        stage.write_ledger("friend", busy_ns=number * SECOND_NS)
        second.passes((taker, 100))
    assert reasons(stage) == ([EXCEEDED] if is_good else [])
