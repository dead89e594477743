"""The extender dies at any instruction, again and again, while schedulers ask."""

import contextlib
import os
import pathlib
import random
import signal
import time

import pytest

from tests.control_plane import extending
from tests.faults import load
from tests.faults.stage import Stage

pytestmark = pytest.mark.testbed

SEED = 20261121


def worker_of(extender: extending.RunningExtender) -> int | None:
    """Return the process that decides; gunicorn's arbiter starts another when it dies."""
    pid = extender.process.pid
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else None


@pytest.mark.parametrize("kills", [25, pytest.param(100, marks=pytest.mark.nightly)])
def test_random_kills_cause_no_loss_or_double_allocation(stage: Stage, kills: int) -> None:
    points = random.Random(SEED)  # noqa: S311 - reproducible pauses, no secret
    with stage.loaded("killed") as (extender, pods):
        for _ in range(kills):
            time.sleep(points.uniform(0.0, 0.1))
            worker = worker_of(extender)
            assert worker is not None
            killed = time.monotonic()
            os.kill(worker, signal.SIGKILL)
            pods.recovers(killed)
            load.judge(stage.client)
    assert len(pods.done) >= kills


def test_the_whole_program_killed_and_started_again_goes_on_where_it_was(stage: Stage) -> None:
    with (
        stage.extender() as extender,
        contextlib.ExitStack() as later,
        load.running(stage.client, extender.port, "again") as pods,
    ):
        worker = worker_of(extender)
        extender.process.kill()
        if worker is not None:
            os.kill(worker, signal.SIGKILL)
        later.enter_context(stage.extender(port=extender.port))
        pods.recovers()
