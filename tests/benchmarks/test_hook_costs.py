"""What the hook costs stays within its bounds: `make bench` shows by how much."""

import pytest

from tests.benchmarks import hook

pytestmark = pytest.mark.clock

ROUNDS = 500


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    hook.build()


def test_a_launch_costs_no_more_than_its_bounds() -> None:
    unlimited, limited = hook.gate_ns()
    assert unlimited <= hook.MOST_UNLIMITED_NS
    assert limited <= hook.MOST_LIMITED_NS


@pytest.mark.parametrize("processes", [1, 2])
def test_a_charge_costs_no_more_than_its_bound(processes: int) -> None:
    median, _, _ = hook.charge(processes, 1)
    assert float(median) <= hook.MOST_CHARGE_NS


def test_a_program_without_cuda_costs_no_more_than_its_bounds() -> None:
    _, _, more, dirty = hook.program_without_cuda(ROUNDS)["the hook"]
    assert float(more) <= hook.MOST_EXEC_MICROSECONDS
    assert float(dirty) <= hook.MOST_EXEC_KIB
