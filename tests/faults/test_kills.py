"""The extender dies at any instruction, again and again, while schedulers ask."""

import os
import pathlib
import random
import signal
import time

import pytest

from gpustack.adapters.kube import KubeClient
from tests.control_plane import extending
from tests.faults import load

pytestmark = pytest.mark.bench

KILLS = 100
RECOVERY_SECONDS = 5.0
SEED = 20261121


def worker_of(extender: extending.RunningExtender) -> int | None:
    """Return the process that decides; gunicorn's arbiter starts another when it dies."""
    pid = extender.process.pid
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else None


def test_killed_at_a_hundred_random_points_it_gives_nothing_twice_and_loses_nothing(
    client: KubeClient, kubeconfig: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    points = random.Random(SEED)  # noqa: S311 - reproducible pauses, no secret
    slowest = 0.0
    with extending.start(tmp_path, kubeconfig) as extender:
        with load.Load(client, extender.port, "killed") as pods:
            for _ in range(KILLS):
                time.sleep(points.uniform(0.0, 0.1))
                worker = worker_of(extender)
                assert worker is not None
                killed = time.monotonic()
                os.kill(worker, signal.SIGKILL)
                slowest = max(
                    slowest,
                    pods.wait_for_one_asked_after(killed, within_seconds=RECOVERY_SECONDS),
                )
                load.judge(client)
        load.judge(client)
        load.nothing_is_lost(client, pods)
        assert len(pods.done) >= KILLS
    assert slowest <= RECOVERY_SECONDS


def test_the_whole_program_killed_and_started_again_goes_on_where_it_was(
    client: KubeClient, kubeconfig: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with extending.start(tmp_path, kubeconfig) as extender:
        port = extender.port
        with load.Load(client, port, "again") as pods:
            pods.wait_for_one_asked_after(time.monotonic(), within_seconds=RECOVERY_SECONDS)
            worker = worker_of(extender)
            extender.process.kill()
            if worker is not None:
                os.kill(worker, signal.SIGKILL)
            with extending.start(tmp_path, kubeconfig, port=port):
                pods.wait_for_one_asked_after(time.monotonic(), within_seconds=RECOVERY_SECONDS)
                load.judge(client)
                pods.__exit__(None, None, None)
        load.nothing_is_lost(client, pods)
