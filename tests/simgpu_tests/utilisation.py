"""What NVML tells of the time that processes use of the first card."""

import time

from tests.simgpu_tests.pynvml_process import Nvml, NvmlFailure

NOT_FOUND = 6


def now_us() -> int:
    return time.time_ns() // 1000


def percents(session: Nvml, since_us: int) -> dict[int, int]:
    """By PID, the average over the windows that ended after a moment."""
    try:
        samples = session.ask("nvmlDeviceGetProcessUtilization", {"card": 0}, since_us)
    except NvmlFailure as failure:
        if failure.code != NOT_FOUND:
            raise
        return {}
    return {sample["pid"]: sample["smUtil"] for sample in samples}


def newest_us(session: Nvml, before_us: int = 0) -> int:
    """The end of the newest window that NVML tells of, once it is after a moment."""
    while True:
        try:
            samples = session.ask("nvmlDeviceGetProcessUtilization", {"card": 0}, before_us)
            return max(int(sample["timeStamp"]) for sample in samples)
        except NvmlFailure as failure:
            if failure.code != NOT_FOUND:
                raise
