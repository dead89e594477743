"""What a tenant got of the card's time, from what it printed."""

import concurrent.futures
import contextlib
import dataclasses
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.gpu.host import Programs, tenant
from tests.gpu.report import Report

# What a tenant does before it counts: the card comes up to its speed, what was saved up is used up.
WARM_SECONDS: Final = 2.0
_NS: Final = 1e9
_FEW: Final = 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A moment (CLOCK_MONOTONIC), and what was over by then.

    Attributes:
        at_ns: the moment.
        launches: kernels.
        clock_ns: what they took by the card's own clock; 0 where kernels have no code.
    """

    at_ns: int
    launches: int
    clock_ns: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one tenant did."""

    points: Sequence[Point]

    def between(self, begin_ns: float, end_ns: float) -> "Run":
        """Return the part of it that lies between two moments."""
        return Run(points=[each for each in self.points if begin_ns <= each.at_ns <= end_ns])

    @property
    def begin_ns(self) -> int:
        """Its first moment."""
        return self.points[0].at_ns

    @property
    def end_ns(self) -> int:
        """Its last moment."""
        return self.points[-1].at_ns

    @property
    def warm(self) -> "Run":
        """Return it without its beginning."""
        return self.between(self.begin_ns + WARM_SECONDS * _NS, self.end_ns)

    def launches_a_second(self) -> float:
        """From one kernel's end to another's, so that no part of a turn is counted."""
        first, last = self.points[0], self.points[-1]
        return (last.launches - first.launches) / (last.at_ns - first.at_ns) * _NS

    def busy_by_clock(self) -> float:
        """The part of the time that its kernels took by the card's clock, neighbours included."""
        first, last = self.points[0], self.points[-1]
        return (last.clock_ns - first.clock_ns) / (last.at_ns - first.at_ns)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel of fixed work, and what it takes alone and without the hook.

    Attributes:
        microseconds: what it should take.
        loops: how many loops the card makes in a microsecond.
        alone_seconds: what one after another take each.
    """

    microseconds: int
    loops: int
    alone_seconds: float

    def share(self, run: Run) -> float:
        """Return what a run had of the card's time, percent."""
        return 100 * run.launches_a_second() * self.alone_seconds


def text_of(microseconds: int) -> str:
    """Return a kernel's length for people."""
    if microseconds < 1000:
        return f"{microseconds} µs"
    return f"{microseconds // 1000} ms"


def loops_of(programs: Programs) -> int:
    """Measure how many loops the card makes in a microsecond."""
    return int(json.loads(programs.run(*tenant("rate")))["loops"])


def run(programs: Programs, microseconds: int, loops: int, seconds: float) -> Run:
    """Let a tenant work for so long; at least so long that some kernels are over."""
    printed = programs.run(*tenant("run", microseconds, loops, seconds), timeout=seconds + 120)
    return read(printed)


def read(printed: str) -> Run:
    """Return what a tenant did by what it printed; it has to be some kernels."""
    points = [
        Point(at_ns=at_ns, launches=launches, clock_ns=clock_ns)
        for at_ns, launches, clock_ns in json.loads(printed)["points"]
    ]
    assert len(points) >= _FEW, f"{len(points)} points"
    return Run(points=points)


def measured(programs: Programs, microseconds: int, loops: int, seconds: float) -> Kernel:
    """Measure what a kernel takes, one after another."""
    alone = run(programs, microseconds, loops, WARM_SECONDS + seconds).warm
    return Kernel(
        microseconds=microseconds, loops=loops, alone_seconds=1 / alone.launches_a_second()
    )


class Kernels:
    """Kernels by their length in microseconds, each measured when it is first asked for.

    Args:
        programs: what runs without the hook.
        seconds: for how long each is measured.
    """

    def __init__(self, programs: Programs, seconds: float) -> None:
        self._programs = programs
        self._seconds = seconds
        self._loops = 0
        self._known: dict[int, Kernel] = {}

    def __getitem__(self, microseconds: int) -> Kernel:
        if not self._loops:
            self._loops = loops_of(self._programs)
        if microseconds not in self._known:
            self._known[microseconds] = measured(
                self._programs, microseconds, self._loops, self._seconds
            )
        return self._known[microseconds]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What checks with a clock need.

    Attributes:
        bare: runs programs without the hook.
        kernels: of any length.
        report: takes the figures.
        seconds: how long a share is watched.
    """

    bare: Programs
    kernels: Kernels
    report: Report
    seconds: float


def together(tenants: Mapping[str, Programs], kernel: Kernel, seconds: float) -> Mapping[str, Run]:
    """Let tenants work at the same time; returns what each did while all of them were at it."""
    span = WARM_SECONDS + seconds + 1
    with concurrent.futures.ThreadPoolExecutor(len(tenants)) as pool:
        started = {
            name: pool.submit(run, programs, kernel.microseconds, kernel.loops, span)
            for name, programs in tenants.items()
        }
        runs = {name: each.result() for name, each in started.items()}
    begin_ns = max(each.begin_ns for each in runs.values()) + WARM_SECONDS * _NS
    end_ns = min(each.end_ns for each in runs.values())
    return {name: each.between(begin_ns, end_ns) for name, each in runs.items()}


def launch_ns(programs: Programs, rounds: int) -> tuple[float, float]:
    """Return what a launch costs its caller, ns: the least and the middle of many rounds."""
    found = json.loads(programs.run(*tenant("cost", rounds)))["ns"]
    return min(found), statistics.median(found)


def jain(values: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 where all are equal."""
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


@contextlib.contextmanager
def background(
    programs: Programs, kernel: Kernel, seconds: float
) -> Iterator["concurrent.futures.Future[Run]"]:
    """Let a tenant work beside what follows."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        yield pool.submit(run, programs, kernel.microseconds, kernel.loops, seconds)
