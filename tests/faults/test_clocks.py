"""The extender's wall clock is set while schedulers ask: by a user, or by a time server."""

import time

import pytest

from tests.control_plane.extending import KEYS
from tests.faults import load
from tests.faults.stage import Stage
from tests.faults.wall_clock import WallClock

pytestmark = pytest.mark.testbed

HOUR = 3600.0
# Certificates that were made in the clock's future are refused: the testbed's are an hour old.
ALMOST_AN_HOUR = HOUR - 60.0
ROUNDING_NS = 10_000_000


def test_a_clock_that_jumps_causes_no_loss_or_double_allocation(stage: Stage) -> None:
    wall = WallClock(stage.folder)
    with stage.loaded("clock", environment=wall.environment) as (_, pods):
        for ahead in (HOUR, 0.0, -ALMOST_AN_HOUR, 0.0):
            wall.set_ahead(ahead)
            jumped = time.monotonic()
            pods.recovers(jumped)
            time.sleep(1)
            load.judge(stage.client)
            decisions_are_dated_by(wall, stage, pods, since=jumped)


def decisions_are_dated_by(wall: WallClock, stage: Stage, pods: load.Load, *, since: float) -> None:
    """Every decision's time lies between its question and its answer, as the clock has them."""
    later = [each for each in list(pods.done) if each.asked >= since]
    found = {pod["metadata"]["uid"]: pod for pod in stage.client.get(load.PODS)["items"]}
    assert later
    for each in later:
        time_ns = int(found[each.uid]["metadata"]["annotations"][KEYS.predicate_time])
        assert wall.at_ns(each.asked) - ROUNDING_NS <= time_ns
        assert time_ns <= wall.at_ns(each.at) + ROUNDING_NS
