"""The processes on a card as NVML counts them."""

import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from gpustack.model.units import LARGEST_CARD_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process on a card, of any kind: host PID, bytes of card memory."""

    pid: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """GPU time of processes, by host PID, in a span.

    Attributes:
        until_us: when the span ended (Unix, µs).
        lag: the time from then to now, as a part of the span; at most 1.
        behind_us: the time from then to now, µs.
        busy_ns: by host PID.
    """

    until_us: int
    lag: float = 0.0
    behind_us: int = 0
    busy_ns: Mapping[int, int]


# The driver keeps samples for some seconds only; its average covers no earlier time.
_LONGEST_SPAN_US: Final = 3_000_000
_ALL_PERCENT: Final = 100
# Time stamps are the host's clock, which may be set back: what is later than this was before.
_AHEAD_US: Final = 1_000_000


def busy(handle: Any, since_us: int) -> Busy:
    """Return the GPU time of each process after ``since_us``, where Busy before has ended.

    NVML gives a process's average utilisation, in whole percent of the time since a time stamp,
    and says nothing of processes that were idle (nvmlDeviceGetProcessUtilization).
    """
    now_us = time.time_ns() // 1000
    if since_us > now_us + _AHEAD_US:
        since_us = now_us
    begin_us = max(since_us, now_us - _LONGEST_SPAN_US)
    samples = _samples(handle, begin_us)
    latest = _latest(each for each in samples if each.timeStamp <= now_us + _AHEAD_US)
    until_us = max((int(sample.timeStamp) for sample in latest.values()), default=begin_us)
    return Busy(
        until_us=until_us,
        behind_us=max(0, now_us - until_us),
        lag=min(1.0, max(0, now_us - until_us) / max(1, until_us - begin_us)),
        busy_ns={
            # percent of microseconds, in nanoseconds
            pid: int(sample.smUtil) * max(0, int(sample.timeStamp) - begin_us) * 10
            for pid, sample in latest.items()
        },
    )


def read(handle: Any) -> tuple[GpuProcess, ...]:
    """Return the card's processes.

    Those of Vulkan or OpenGL, and clients of an MPS server, take its memory and time as well.
    """
    held: dict[int, int] = {}
    for process in _all(handle):
        held[process.pid] = max(held.get(process.pid, 0), _held_bytes(process) or 0)
    return tuple(GpuProcess(pid=pid, memory_bytes=each) for pid, each in held.items())


def unowned_bytes(handle: Any) -> int:
    """Return the memory in use that the driver shows for no process, its own reserve left out.

    0 where the driver doesn't say what each process has.

    Raises:
        pynvml.NVMLError: the card doesn't answer.
    """
    held: dict[int, int | None] = {}
    for process in _all(handle):
        held[process.pid] = _held_bytes(process)
    owned = [each for each in held.values() if each is not None]
    return max(0, _used_bytes(handle) - sum(owned)) if len(owned) == len(held) else 0


def try_all(handle: Any) -> None:
    """Ask a card all that is asked about its processes: what it refuses, it may refuse later.

    It returns unless the card hangs.
    """
    for question in (read, unowned_bytes):
        with contextlib.suppress(pynvml.NVMLError):
            question(handle)
    busy(handle, 0)


def _held_bytes(process: Any) -> int | None:
    """Return the memory that a process has; None where the driver doesn't tell.

    It doesn't in a container without the host's PID space. What no card has says nothing either: of
    drivers whose structure is another one than the library's, it is any number.
    """
    used = process.usedGpuMemory
    return None if used is None or used > LARGEST_CARD_BYTES else int(used)


def _used_bytes(handle: Any) -> int:
    try:
        # Since 510; with the reserve apart.
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2).used)
    except pynvml.NVMLError:
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)


def _all(handle: Any) -> tuple[Any, ...]:
    """Return those of compute, of graphics and of MPS; one may be among several."""
    return (*_running(handle), *_graphics(handle), *_mps(handle))


def _graphics(handle: Any) -> Any:
    try:
        return pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle)
    except pynvml.NVMLLibraryMismatchError:  # as above
        return pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2(handle)
    except pynvml.NVMLError_NotSupported:  # a card without graphics
        return ()


def _mps(handle: Any) -> Any:
    try:
        return pynvml.nvmlDeviceGetMPSComputeRunningProcesses(handle)
    except (
        pynvml.NVMLLibraryMismatchError,  # drivers before 510, which may list clients nowhere
        pynvml.NVMLError_FunctionNotFound,
        pynvml.NVMLError_NotSupported,
    ):
        return ()


def sm_percent(handle: Any, seconds: float) -> Mapping[int, int]:
    """Return each process's utilisation in the last seconds, by host PID; an idle one has none."""
    since_us = time.time_ns() // 1000 - int(seconds * 1_000_000)
    return {pid: int(sample.smUtil) for pid, sample in _latest(_samples(handle, since_us)).items()}


def _running(handle: Any) -> Any:
    try:
        return pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except pynvml.NVMLLibraryMismatchError:  # no NVMLError
        return pynvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)  # drivers before 510


def _samples(handle: Any, since_us: int) -> Any:
    try:
        found = pynvml.nvmlDeviceGetProcessUtilization(handle, since_us)
        # Drivers have given numbers as 2147483632 (github.com/NVIDIA/DCGM/issues/83, and
        # Syllo/nvtop/issues/110): such a sample says nothing, its time neither.
        return [each for each in found if each.smUtil <= _ALL_PERCENT]
    except pynvml.NVMLError:
        # No process has run since then, or the card has no such counter (before Maxwell).
        return ()


def _latest(samples: Iterable[Any]) -> dict[int, Any]:
    latest: dict[int, Any] = {}
    for sample in samples:
        known = latest.get(sample.pid)
        if known is None or sample.timeStamp > known.timeStamp:
            latest[sample.pid] = sample
    return latest
