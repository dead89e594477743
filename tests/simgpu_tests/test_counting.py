"""How NVML counts what processes use of a card, by each of the rules that the description has."""

import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.simgpu_tests.machine import Machine, first_line
from tests.simgpu_tests.pynvml_process import Nvml, newest_us, now_us, percents

LATE_US = 200_000
AVOID_SECONDS = 1.5  # nine samples
MUCH_PERCENT = 10  # this machine's cores are slower than a card

pytestmark = pytest.mark.long

Tell = Callable[..., Nvml]


@pytest.fixture
def counting(bare_machine: Machine) -> Iterator[Tell]:
    """Makes a machine whose NVML counts by a rule; gives a session of it."""
    sessions: list[Nvml] = []

    def start(rule: str) -> Nvml:
        bare_machine.describe({"cards": [{"minor": 0}], "timing": {"counting": rule}})
        bare_machine.start(0)
        sessions.append(Nvml(bare_machine))
        sessions[-1].ask("nvmlInit")
        return sessions[-1]

    yield start
    for session in sessions:
        with session:
            pass


def queued(machine: Machine) -> "subprocess.Popen[str]":
    """A process with an hour's work queued: from now on only the card's clock counts."""
    process = machine.open("tests/client", "0", "queue", "3600000")
    assert first_line(process) == "ready"
    return process


def told_part(machine: Machine, session: Nvml) -> float:
    """How much of what a process ran that avoids the samples NVML tells of it, while it lives."""
    begin_us = now_us()
    avoider = machine.open("tests/client", "0", "avoid", "2000", str(AVOID_SECONDS))
    kernels = int(first_line(avoider))  # it is through with them
    ran_percent = 100 * kernels * 2000 / (now_us() - begin_us)
    told = percents(session, begin_us).get(avoider.pid, 0)
    end(avoider)
    assert ran_percent > MUCH_PERCENT
    return told / ran_percent


def end(*processes: "subprocess.Popen[str]") -> None:
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("rule", ["late", "samples"])
def test_alone_a_process_has_what_its_card_was_busy(
    bare_machine: Machine, counting: Tell, rule: str
) -> None:
    session = counting(rule)
    process = queued(bare_machine)
    newest = newest_us(session, newest_us(session))
    assert now_us() - newest >= LATE_US or rule != "late"
    assert percents(session, newest - 1) == {process.pid: 100}
    end(process)


def test_windows_of_a_second_end_with_the_second(bare_machine: Machine, counting: Tell) -> None:
    session = counting("seconds")
    process = queued(bare_machine)
    first = newest_us(session)
    assert newest_us(session, first) - first == pytest.approx(1_000_000, abs=2)
    end(process)


@pytest.mark.parametrize(("rule", "named"), [("exact", 2), ("samples", 1)])
def test_a_window_names_all_that_ran_and_a_sample_one(
    bare_machine: Machine, counting: Tell, rule: str, named: int
) -> None:
    session = counting(rule)
    both = [queued(bare_machine) for _ in range(2)]
    newest = newest_us(session, newest_us(session, now_us()))
    told = percents(session, newest - 1)
    assert len(told) == named
    assert sum(told.values()) in {100, 99, 101}
    end(*both)


@pytest.mark.parametrize("rule", ["exact", "samples"])
def test_a_process_that_avoids_the_samples_is_not_counted(
    bare_machine: Machine, counting: Tell, rule: str
) -> None:
    session = counting(rule)
    neighbour = queued(bare_machine)
    part = told_part(bare_machine, session)
    # The cores of this machine may keep it from its pause at a sample or two.
    assert part < 0.5 if rule == "samples" else part > 0.5
    end(neighbour)


@pytest.mark.parametrize("rule", ["samples", "samples-last"])
def test_an_idle_sample_is_nobodys_or_the_last_ones(
    bare_machine: Machine, counting: Tell, rule: str
) -> None:
    session = counting(rule)
    part = told_part(bare_machine, session)
    assert part < 0.5 if rule == "samples" else part > 0.5


@pytest.mark.parametrize("rule", ["exact", "samples-last"])
def test_a_process_that_has_ended_stays_in_the_ring(
    bare_machine: Machine, counting: Tell, rule: str
) -> None:
    session = counting(rule)
    process = queued(bare_machine)
    newest = newest_us(session, newest_us(session))  # the first may be older than its work
    end(process)
    assert percents(session, newest - 1)[process.pid] > 0
