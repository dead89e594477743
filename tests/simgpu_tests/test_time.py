"""The effects that make time on a shared card hard to measure."""

import time

import pytest

from tests.simgpu_tests.machine import Machine, first_line
from tests.simgpu_tests.pynvml_process import Nvml, NvmlFailure, newest_us, now_us, percents

NOT_FOUND = 6
POLL_SECONDS = 0.05  # the agent's rate
WINDOW_US = 250_000


def described(machine: Machine, **timing: int) -> Machine:
    machine.describe({"cards": [{"minor": 0}], "timing": timing})
    machine.start(0)
    return machine


def measured_us(machine: Machine, micros: int) -> float:
    return float(machine.run("tests/client", "0", "measure", str(micros)).stdout)


def test_events_cost_and_tick_as_described(bare_machine: Machine) -> None:
    machine = described(bare_machine, event_ns=3000, event_tick_ns=10)
    assert measured_us(machine, 0) == pytest.approx(3.0, abs=0.1)
    assert measured_us(machine, 500) == pytest.approx(503.0, abs=0.1)


def test_foreign_slices_lie_within_an_event_interval(machine: Machine) -> None:
    alone = measured_us(machine, 9000)
    with machine.open("tests/client", "0", "queue", "3600000") as neighbour:
        first_line(neighbour)
        beside = measured_us(machine, 9000)
        neighbour.kill()
    assert alone == pytest.approx(9001, abs=1)
    # 9 ms of work touch at least five turns of 2 ms, with a foreign one between each two.
    assert beside >= 9000 + 4 * 2000 - 1


def test_the_length_of_a_turn_is_described(bare_machine: Machine) -> None:
    machine = described(bare_machine, slice_ns=500_000)
    with machine.open("tests/client", "0", "queue", "3600000") as neighbour:
        first_line(neighbour)
        beside = measured_us(machine, 300)
        neighbour.kill()
    assert beside < 2000  # one foreign turn at most; a default one would be 2 ms


@pytest.mark.long
def test_a_switch_between_clients_takes_its_time(bare_machine: Machine) -> None:
    machine = described(bare_machine, switch_ns=2_000_000)
    both = [machine.open("tests/client", "0", "spin", "5000", "1") for _ in range(2)]
    ran_ms = sum(5 * int(first_line(process)) for process in both)
    for process in both:
        process.communicate()
    assert ran_ms < 700  # of 1000: half goes by between the turns


@pytest.mark.parametrize(
    ("timing", "message"),
    [
        ({"slice": 1}, "timing.slice: unknown key"),
        ({"slice_ns": 0}, "timing.slice_ns: not a whole number"),
        ({"event_ns": -1}, "timing.event_ns: not a whole number"),
        ({"counting": "fair"}, "timing.counting: not one of exact late seconds"),
        ({"counting": 1}, "timing.counting: not one of exact late seconds"),
    ],
)
def test_wrong_timing_is_refused_by_its_key(
    bare_machine: Machine, timing: dict[str, int | str], message: str
) -> None:
    bare_machine.describe({"cards": [{"minor": 0}], "timing": timing})
    assert message in bare_machine.run("bin/simgpu", "init", status=1).stderr


@pytest.mark.long
def test_a_fast_reader_gets_each_window_once(machine: Machine, nvml: Nvml) -> None:
    """Read from its own last time stamp on, utilisation adds up to the truth."""
    nvml.ask("nvmlInit")
    both = [machine.open("tests/client", "0", "spin", "2000", "1.6") for _ in range(2)]
    last_us, busy_us = 0, 0.0
    ends: set[int] = set()
    while any(process.poll() is None for process in both) and len(ends) < 4:
        try:
            samples = nvml.ask("nvmlDeviceGetProcessUtilization", {"card": 0}, last_us)
        except NvmlFailure as failure:
            if failure.code != NOT_FOUND:
                raise
            time.sleep(POLL_SECONDS)
            continue
        end_us = max(sample["timeStamp"] for sample in samples)
        assert end_us - last_us >= WINDOW_US
        span_us = end_us - last_us if last_us else 0
        busy_us += sum(sample["smUtil"] for sample in samples) * span_us / 100
        last_us = end_us
        ends.add(end_us)
    for process in both:
        process.communicate()
    total_us = max(ends) - min(ends)
    assert total_us % WINDOW_US < 2
    assert 0.5 * total_us < busy_us <= 1.02 * total_us


@pytest.fixture
def slow_bus(bare_machine: Machine) -> Machine:
    """A machine on which a megabyte takes 20 ms to the card."""
    bare_machine.describe({"cards": [{"minor": 0}], "timing": {"to_device_mb_s": 50}})
    bare_machine.start(0)
    return bare_machine


@pytest.mark.long
def test_copies_keep_the_card_busy_for_their_kernels_only(slow_bus: Machine) -> None:
    """800 us of kernel in 20.8 ms, on an idle card and beside a client that takes all the rest."""
    with Nvml(slow_bus) as session:
        session.ask("nvmlInit")
        copying = slow_bus.open("tests/client", "0", "copies", "800", "120")
        assert first_line(copying) == "ready"
        newest = newest_us(session, newest_us(session, now_us()))
        assert percents(session, newest - 1) == {copying.pid: 4}
        neighbour = slow_bus.open("tests/client", "0", "queue", "3600000")
        assert first_line(neighbour) == "ready"
        newest = newest_us(session, newest_us(session, now_us()))
        told = percents(session, newest - 1)
        # It waits for the neighbour's turn of 2 ms, once a round.
        assert told[copying.pid] in {3, 4}
        assert sum(told.values()) in {99, 100, 101}
        for process in (copying, neighbour):
            process.kill()
            process.communicate()
