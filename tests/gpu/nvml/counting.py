"""By which rule a driver counts the GPU time of processes, from what it tells beside the truth.

The rules are those of tests/simgpu/README.md, "What NVML counts". Two trials tell them apart. Of
two tenants that always want the card, a window names both where each has what it used, and one
where a sample goes to the process that it finds. A tenant that rests for two thirds of the time has
a third of its time where a sample that finds nobody is nobody's, and all of it elsewhere.
"""

import dataclasses
import enum
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Final

from gpustack.adapters.nvml import Nvml

POINTS: Final = 3.0  # as the agent lets pass beyond a share (gpu_time_accounts.POINTS)
_OFTEN_SECONDS: Final = 0.02
_MOSTLY: Final = 0.8  # of the windows
_KEPT_PART: Final = 0.6  # of a resting tenant's time: between a third and all of it
_LATE_SECONDS: Final = 0.1  # a reader at 50 Hz sees a window that is told at once before that
_LONG_SECONDS: Final = 0.75  # between windows of 1/4 s and of 1 s
_FEWEST: Final = 3  # windows


class Rule(enum.Enum):
    """A rule by the name that tests/simgpu gives it; unknown: none of these."""

    EXACT = "exact"
    LATE = "late"
    SECONDS = "seconds"
    SAMPLES = "samples"
    SAMPLES_LAST = "samples-last"
    UNKNOWN = "unknown"

    @property
    def is_good(self) -> bool:
        """Whether launches may be held back by this count: the agent's `collect_gpu_time`."""
        return self in {Rule.EXACT, Rule.LATE, Rule.SECONDS}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One answer of the driver that is newer than the one before.

    Attributes:
        span_ns: since the answer before.
        behind_ns: how old it was when it was first read.
        busy_ns: GPU time by host PID.
    """

    span_ns: int
    behind_ns: int
    busy_ns: Mapping[int, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a driver told of tenants, beside what they had.

    Attributes:
        windows: in their order.
        had_percent: of the card's time, by host PID: the truth, by the work that was done.
    """

    windows: Sequence[Window]
    had_percent: Mapping[int, float]

    @property
    def named_part(self) -> float:
        """The part of the windows that name all tenants."""
        named = [self.had_percent.keys() <= each.busy_ns.keys() for each in self.windows]
        return sum(named) / len(named)

    @property
    def told_percent(self) -> Mapping[int, float]:
        """What the driver says that each had of the card's time."""
        span_ns = sum(each.span_ns for each in self.windows)
        return {
            pid: 100 * sum(each.busy_ns.get(pid, 0) for each in self.windows) / span_ns
            for pid in self.had_percent
        }

    @property
    def error_points(self) -> float:
        """By how much the driver errs of one of them, at most."""
        told = self.told_percent
        return max(abs(told[pid] - had) for pid, had in self.had_percent.items())

    @property
    def window_seconds(self) -> float:
        """The middle length of the windows."""
        return statistics.median(each.span_ns for each in self.windows) / 1e9

    @property
    def behind_seconds(self) -> float:
        """How old a window is when it is told, at least: the rest is the reader's."""
        return min(each.behind_ns for each in self.windows) / 1e9


def windows(nvml: Nvml, uuid: str, until: float) -> Sequence[Window]:
    """Read a card's windows as the agent does, up to a moment (`time.monotonic`).

    Raises:
        NvmlError: the card isn't known.
    """
    found: list[Window] = []
    since_us = 0
    while time.monotonic() < until:
        busy = nvml.busy(uuid, since_us=since_us)
        if busy.busy_ns and busy.until_us > since_us:
            window = Window(
                span_ns=1000 * (busy.until_us - since_us),
                behind_ns=1000 * busy.behind_us,
                busy_ns=busy.busy_ns,
            )
            found += [window] if since_us else []  # where the first has begun isn't known
            since_us = busy.until_us
        time.sleep(_OFTEN_SECONDS)
    return found


def rule_of(beside: Told, resting: Told) -> Rule:
    """Return the rule.

    Args:
        beside: two tenants that always want the card.
        resting: one that rests for two thirds of the time.
    """
    if min(len(beside.windows), len(resting.windows)) < _FEWEST:
        return Rule.UNKNOWN  # it doesn't count processes
    if beside.named_part >= _MOSTLY:
        if max(beside.error_points, resting.error_points) > POINTS:
            return Rule.UNKNOWN
        if beside.window_seconds >= _LONG_SECONDS:
            return Rule.SECONDS
        return Rule.LATE if beside.behind_seconds >= _LATE_SECONDS else Rule.EXACT
    if beside.named_part > 1 - _MOSTLY:
        return Rule.UNKNOWN
    (pid,) = resting.had_percent
    kept = resting.told_percent[pid] / resting.had_percent[pid]
    return Rule.SAMPLES_LAST if kept >= _KEPT_PART else Rule.SAMPLES
