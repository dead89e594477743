"""No wrong card, no container without a record, no good pod failed, in any order of events."""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import settings, stateful

from tests.agent.stateful.kill_points import KillPoints
from tests.agent.stateful.machine import NodeMachine

# A search of hours is cut up: each part reports its end, and the parts share the cores.
PARTS = max(1, settings().max_examples // 2_500)
_STEPS = 60


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)  # an agent that is killed says so at every turn
    yield
    logging.disable(logging.NOTSET)


def _run(examples: int) -> int:
    before = NodeMachine.steps
    stateful.run_state_machine_as_test(
        NodeMachine, settings=settings(stateful_step_count=_STEPS, max_examples=examples)
    )
    return NodeMachine.steps - before


@pytest.mark.long
def test_a_node_knows_whose_each_container_is() -> None:
    assert _run(8) > 0


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_no_order_of_events_confuses_or_forgets_a_container(part: int) -> None:
    judged = NodeMachine.judged.copy()
    examples = settings().max_examples // PARTS
    steps = _run(examples)
    judged = NodeMachine.judged - judged
    print(
        f"part {part} of {PARTS}: {steps} steps, {judged['started']} containers started,"
        f" {judged['agents']} agents, killed at {len(KillPoints.killed)} of"
        f" {len(KillPoints.passed)} points"
    )
    assert steps >= 50 * examples  # 10 000 of the default profile, a million of all nightly parts
    assert judged["started"] >= 500
    assert len(KillPoints.killed) >= 40
