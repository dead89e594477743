"""Copies keep no multiprocessor busy, and hold up no other client."""

import pytest

from tests.simgpu_tests.machine import Machine, first_line
from tests.simgpu_tests.pynvml_process import Nvml
from tests.simgpu_tests.utilisation import newest_us, now_us, percents

pytestmark = pytest.mark.long


@pytest.fixture
def slow_bus(bare_machine: Machine) -> Machine:
    """A machine on which a megabyte takes 20 ms to the card."""
    bare_machine.describe({"cards": [{"minor": 0}], "timing": {"to_device_mb_s": 50}})
    bare_machine.start(0)
    return bare_machine


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
