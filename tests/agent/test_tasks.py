"""All threads of the agent together end within a bounded time."""

import threading
import time

import pytest

from gpustack.agent import tasks


def test_threads_that_do_not_end_share_one_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tasks, "_JOIN_SECONDS", 0.2)
    running, ends = tasks.Tasks(), threading.Event()

    def wait(_: threading.Event) -> None:
        ends.wait()

    for number in range(20):
        running.start(f"stuck-{number}", wait)
    running.stop.set()
    began = time.monotonic()
    running.join()
    seconds = time.monotonic() - began
    ends.set()
    assert 0.2 <= seconds < 2
    assert [each.getMessage() for each in caplog.records] == [
        f"thread does not end name=stuck-{number}" for number in range(20)
    ]
