"""Time a call many times; return the median and the 99th percentile."""

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterable


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Median and 99th percentile, seconds."""

    median: float
    p99: float

    def text(self, unit: str = "ms") -> str:
        """Return ``median (p99)`` in a unit."""
        factor = {"ms": 1e3, "us": 1e6}[unit]
        return f"{self.median * factor:.2f} ({self.p99 * factor:.2f})"


def measure(call: Callable[[], object], *, times: int) -> Timing:
    """Measure ``times`` calls after one unmeasured call."""
    call()
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return summary(seconds)


def summary(seconds: Iterable[float]) -> Timing:
    """Return median and 99th percentile of the measured times; there is at least one."""
    ordered = sorted(seconds)
    return Timing(median=statistics.median(ordered), p99=ordered[int(len(ordered) * 0.99)])
