"""The driver's samples bear the host's clock, which may be set back, and may make no sense."""

import time
import types

import pynvml
import pytest

from gpustack.adapters.nvml import processes

_HOUR_US = 3_600_000_000


def test_gpu_time_is_counted_after_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now_us = time.time_ns() // 1000
    kept = [types.SimpleNamespace(pid=7, timeStamp=now_us + _HOUR_US + 5, smUtil=90)]
    monkeypatch.setattr(
        pynvml,
        "nvmlDeviceGetProcessUtilization",
        lambda _, since_us: [each for each in kept if each.timeStamp > since_us],
    )
    first = processes.busy(None, now_us + _HOUR_US)
    assert first.busy_ns == {}
    kept.append(types.SimpleNamespace(pid=7, timeStamp=first.until_us + 500_000, smUtil=50))
    second = processes.busy(None, first.until_us)
    assert second.busy_ns == {7: 250_000_000}
    assert second.until_us == first.until_us + 500_000


def test_a_sample_of_an_impossible_part_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    now_us = time.time_ns() // 1000
    samples = [
        types.SimpleNamespace(pid=7, timeStamp=now_us - 500_000, smUtil=40),
        types.SimpleNamespace(pid=7, timeStamp=now_us, smUtil=2_147_483_632),
        types.SimpleNamespace(pid=8, timeStamp=now_us, smUtil=101),
    ]
    monkeypatch.setattr(pynvml, "nvmlDeviceGetProcessUtilization", lambda *_: samples)
    found = processes.busy(None, now_us - 1_000_000)
    assert found.busy_ns == {7: 200_000_000}
    assert found.until_us == now_us - 500_000
    assert processes.sm_percent(None, 1.0) == {7: 40}
