"""The processes on a card as NVML counts them."""

from dataclasses import dataclass
from typing import Any

import pynvml


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A compute process: host PID, bytes of card memory, percent of SM time lately."""

    pid: int
    memory_bytes: int
    sm_percent: int


def read(handle: Any) -> tuple[GpuProcess, ...]:
    """Return the card's compute processes; utilisation is 0 where no sample is there yet."""
    percent = _utilisation(handle)
    return tuple(
        GpuProcess(
            pid=process.pid,
            # None where the driver can't tell (a container without the host's PID space).
            memory_bytes=process.usedGpuMemory or 0,
            sm_percent=percent.get(process.pid, 0),
        )
        for process in _running(handle)
    )


def _running(handle: Any) -> Any:
    try:
        return pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except pynvml.NVMLLibraryMismatchError:  # no NVMLError
        return pynvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)  # drivers before 510


def _utilisation(handle: Any) -> dict[int, int]:
    try:
        samples = pynvml.nvmlDeviceGetProcessUtilization(handle, 0)
    except pynvml.NVMLError:
        # Nothing has run since the driver began to sample, or the card can't (before Maxwell).
        return {}
    latest: dict[int, Any] = {}
    for sample in samples:
        known = latest.get(sample.pid)
        if known is None or sample.timeStamp > known.timeStamp:
            latest[sample.pid] = sample
    return {pid: int(sample.smUtil) for pid, sample in latest.items()}
