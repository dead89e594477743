"""The agent is killed at each of its writes and answers in turn, and nothing comes of it."""

import contextlib
import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.agent.host import KEYS
from tests.agent.stateful.kill_points import KillPoints
from tests.agent.stateful.machine import NodeMachine
from tests.agent.stateful.workloads import SHAPES

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)  # an agent that is killed says so
    yield
    logging.disable(logging.NOTSET)


@contextlib.contextmanager
def _node(point: str = "") -> Iterator[NodeMachine]:
    """Give a node whose agent dies at a point, and judge it at the end."""
    machine = NodeMachine()
    machine.node.points.arm_point(point)
    machine.node.start_agent()
    try:
        yield machine
    finally:
        machine.teardown()


def _live(machine: NodeMachine) -> None:
    """Let everything happen once that makes the agent write."""
    life = machine.life
    for shape in range(len(SHAPES)):
        machine.run(shape, shape % 2, memory_first=bool(shape % 2))
        machine.work("writes")
        if SHAPES[shape].cores == 100:
            machine.end(len(life.truth.present) - 1, "delete", 0)
            machine.work("recovery")
    shared = next(each for each in life.truth.present if not each.shape.is_static)
    machine.node.api.edit(shared.mirror, {"metadata": {"annotations": {KEYS.core_limit: "90"}}})
    gone = {KEYS.gpu_assigned: None}
    machine.node.api.edit(shared.mirror, {"metadata": {"annotations": gone}})
    for _ in range(2):
        machine.work("audit")
    machine.work("writes")
    machine.restart_kubelet(crash=True, early=0)
    machine.reboot(early=0, agent_first=True)
    for _ in range(len(life.truth.present)):
        machine.start(0)
    machine.end(0, "succeed", 0)
    machine.work("recovery")


def test_no_write_of_the_agent_is_one_that_it_must_survive() -> None:
    KillPoints.passed.clear()
    with _node() as machine:
        _live(machine)
    points = sorted(KillPoints.passed)
    killed = Counter[str]()
    for point in points:
        KillPoints.killed.clear()
        with _node(point) as machine:
            _live(machine)
        killed.update(KillPoints.killed)
    print(f"killed at {len(killed)} of {len(points)} points of a life")
    assert len(killed) >= 100
    assert set(points) == set(killed)
