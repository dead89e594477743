"""A trace of arrivals and departures, played on a cluster under one policy.

Pods that don't fit wait, as they do in Kubernetes, and are tried again in the order of their
arrival when cards become free. At one moment departures come first, then waiting pods, then
arrivals. A pod's duration begins when it is placed. What stands on the nodes at the beginning
stays. The same trace gives the same run.
"""

import bisect
import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from gpustack.model.cluster.simulator import Progress, Simulator
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.policies import Policy, fragmentation
from gpustack.model.policies.fragmentation import Workload
from gpustack.model.request import PodRequest
from gpustack.model.units import CORES_PER_CARD


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Like pods that arrive together.

    Attributes:
        at: seconds since any moment that the trace agrees on.
        duration: seconds that each runs once it is placed, above 0; None: it stays.
        request: what each asks.
        count: how many.
    """

    at: float
    duration: float | None
    request: PodRequest
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is taken of the healthy cards of some nodes, and how usable the rest is.

    Attributes:
        cores: hundredths of a card in use; over-commit doesn't count.
        memory_units: in use, likewise.
        fragmented: as `fragmentation.fragmented`.
    """

    cores: int = 0
    memory_units: int = 0
    fragmented: int = 0

    def changed(self, old: "Load", new: "Load") -> "Load":
        """Return the sum after one node's part became another."""
        return Load(
            cores=self.cores - old.cores + new.cores,
            memory_units=self.memory_units - old.memory_units + new.memory_units,
            fragmented=self.fragmented - old.fragmented + new.fragmented,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The cluster just after something happened, at `at` seconds; `waiting` pods wait."""

    at: float
    load: Load
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one policy made of the trace.

    Attributes:
        moments: one for each moment at which anything happened, ascending.
        placements: of the pods that got cards, in the order in which they did.
        unplaced: pods that still wait at the end.
        waited_seconds: the sum over placed pods of the time until they were.
    """

    moments: tuple[Moment, ...]
    placements: tuple[Placement, ...]
    unplaced: int
    waited_seconds: float

    @property
    def placed(self) -> int:
        """How many pods got cards."""
        return len(self.placements)


def run(
    nodes: Iterable[Node],
    arrivals: Iterable[Arrival],
    policy: Policy,
    workload: Workload,
    progress: Progress | None = None,
) -> Run:
    """Play the whole trace; `workload` is what fragmentation is measured by."""
    simulation = Simulation(nodes, arrivals, policy, workload)
    moments = []
    for moment in simulation.moments():
        moments.append(moment)
        if progress is not None:
            progress(simulation.arrived, simulation.total)
    return Run(
        moments=tuple(moments),
        placements=tuple(simulation.placements),
        unplaced=moments[-1].waiting if moments else 0,
        waited_seconds=simulation.waited_seconds,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    number: int  # in the order of arrival; no two have the same
    since: float
    duration: float


class Simulation:
    """One run in progress; `fleet` is the cluster as it stands."""

    def __init__(
        self, nodes: Iterable[Node], arrivals: Iterable[Arrival], policy: Policy, workload: Workload
    ) -> None:
        self.fleet = Simulator(nodes, policy, partial(place, policy=policy))
        self.arrived = 0
        self.placements: list[Placement] = []
        self.waited_seconds = 0.0
        self._arrivals = deque(sorted(arrivals, key=lambda each: each.at))
        self.total = sum(each.count for each in self._arrivals)
        self._workload = workload
        self._leaving: list[tuple[float, int, Placement]] = []  # a heap by time
        self._queues: dict[PodRequest, deque[_Waiting]] = {}
        self._loads = {node.name: load_of(node, workload) for node in self.fleet.nodes}
        self._sum = Load()
        for load in self._loads.values():
            self._sum = self._sum.changed(Load(), load)

    def moments(self) -> Iterator[Moment]:
        """Play the trace, and say after each moment how things stand."""
        while self._arrivals or self._leaving:
            at = self._next()
            self._admit_waiting(at, self._depart(at))
            self._arrive(at)
            waiting = sum(len(queue) for queue in self._queues.values())
            yield Moment(at=at, load=self._sum, waiting=waiting)

    def _next(self) -> float:
        leaving = self._leaving[0][0] if self._leaving else float("inf")
        return min(leaving, self._arrivals[0].at) if self._arrivals else leaving

    def _depart(self, at: float) -> set[str]:
        """Release what ends now; return the names of the nodes that have more room."""
        changed = set()
        while self._leaving and self._leaving[0][0] <= at:
            placement = heapq.heappop(self._leaving)[-1]
            self.fleet.release(placement)
            self._weigh(placement.node)
            changed.add(placement.node)
        return changed

    def _admit_waiting(self, at: float, changed: set[str]) -> None:
        """Try waiting pods on the nodes that changed: all others have refused them already."""
        queues = self._queues.items() if changed else ()
        heads = [(queue[0].number, request) for request, queue in queues]
        heapq.heapify(heads)
        while heads:
            _, request = heapq.heappop(heads)
            queue = self._queues[request]
            if not self._start(at, queue[0], request, changed):
                continue  # and so would the others of its queue be refused
            queue.popleft()
            if queue:
                heapq.heappush(heads, (queue[0].number, request))
            else:
                del self._queues[request]

    def _arrive(self, at: float) -> None:
        while self._arrivals and self._arrivals[0].at <= at:
            arrival = self._arrivals.popleft()
            lasts = float("inf") if arrival.duration is None else arrival.duration
            for _ in range(arrival.count):
                self.arrived += 1
                pod = _Waiting(number=self.arrived, since=at, duration=lasts)
                # Where its like wait already, nothing has become free that they could use.
                if arrival.request in self._queues or not self._start(at, pod, arrival.request):
                    self._queues.setdefault(arrival.request, deque()).append(pod)

    def _start(
        self, at: float, pod: _Waiting, request: PodRequest, among: set[str] | None = None
    ) -> bool:
        placement = self.fleet.place(request, among)
        if placement is None:
            return False
        self._weigh(placement.node)
        self.placements.append(placement)
        self.waited_seconds += at - pod.since
        if pod.duration != float("inf"):
            heapq.heappush(self._leaving, (at + pod.duration, pod.number, placement))
        return True

    def _weigh(self, name: str) -> None:
        new = load_of(self.fleet.node(name), self._workload)
        self._sum = self._sum.changed(self._loads[name], new)
        self._loads[name] = new


def load_of(node: Node, workload: Workload) -> Load:
    """Return one node's part of the load."""
    healthy, (cores, units) = node.healthy, node.free_totals
    return Load(
        cores=CORES_PER_CARD * len(healthy) - cores,
        memory_units=sum(node.cards[index].memory_units for index in healthy) - units,
        fragmented=fragmentation.fragmented(node, workload),
    )


def sample(moments: Sequence[Moment], times: Iterable[float]) -> list[Moment]:
    """Return the last moment not after each of `times`, else the first; there must be one."""
    ats = [moment.at for moment in moments]
    return [moments[max(0, bisect.bisect_right(ats, time) - 1)] for time in times]


def mean(moments: Sequence[Moment], end: float, value: Callable[[Moment], float]) -> float:
    """Return the mean of `value` over time until `end`, s; its last one where no time passes."""
    within = [moment for moment in moments if moment.at <= end] or list(moments[:1])
    length = end - within[0].at
    if length <= 0:
        return value(within[-1])
    ends = [*(moment.at for moment in within[1:]), end]
    areas = (
        value(moment) * (until - moment.at) for moment, until in zip(within, ends, strict=True)
    )
    return sum(areas) / length
