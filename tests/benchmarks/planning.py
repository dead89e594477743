"""How fast questions about whole clusters are answered, and what each policy leaves usable."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from gpustack.model import policies
from gpustack.model.cluster import replay, what_if
from gpustack.model.cluster.cluster import Pod, settle
from gpustack.model.cluster.replay import Arrival, Moment, Run
from gpustack.model.node import Node
from gpustack.model.policies import Policy
from gpustack.model.policies.fragmentation import Workload, ratio, workload_of
from gpustack.model.request import PodRequest
from gpustack.model.search.demand import Demand
from gpustack.model.units import CORES_PER_CARD
from gpustack.wire.files.trace import parse_trace
from tests.benchmarks import traces
from tests.benchmarks.model import node
from tests.model.machines import pod

NODES = 1000
PODS = 10_000
CARDS = 8
SEED = 4
MEAN_SECONDS = 3600.0
OVERSUBSCRIBED = 1.3  # times all cards; the cores that are left then are fragments


@dataclass(frozen=True, slots=True)
class Binpack(Policy):
    """The plain packer to compare with: best fit, and the lowest free cards whatever joins them."""

    name: ClassVar[str] = "binpack"

    def wholes(
        self, node: Node, request: PodRequest, demand: Demand, exact: Iterator[tuple[int, ...]]
    ) -> Iterator[tuple[int, ...]]:
        """Yield the sets in the order of their cards; the benchmark's pods demand no topology."""
        del node, request, exact
        return itertools.combinations(demand.candidates, demand.count)


def section() -> str:
    """Measure and return the page's part."""
    parts = throughput(), fragmentation(load=0.9), fragmentation(load=1.2), saturation()
    return "\n".join(line for part in parts for line in part)


def cluster(nodes: int) -> tuple[Node, ...]:
    """Return like nodes of 8 cards."""
    return tuple(replace(node(CARDS), name=f"node-{number:04}") for number in range(nodes))


def throughput() -> Iterator[str]:
    """Place so many pods of five shapes on so many nodes, and count what still fits."""
    shapes = ((25, 40), (50, 80), (100, 0), (200, 0), (400, 0))
    requests = [pod(shape) for shape in shapes]
    pods = [
        Pod(namespace="default", name=str(number), request=requests[number % len(shapes)])
        for number in range(PODS)
    ]
    several = settle(cluster(NODES), ())
    workload = workload_of((each, 1) for each in requests)
    yield f"## what-if: {PODS} pods on {NODES} nodes of {CARDS} cards, seconds"
    yield ""
    yield "| policy | place all | pods placed | capacity of the first shape |"
    yield "|---|---|---|---|"
    for policy in (policies.named(name, workload) for name in policies.NAMES):
        started = time.perf_counter()
        placed = len(what_if.plan(several, pods, policy).placed)
        planned = time.perf_counter()
        what_if.capacity(several, pods[0], policy)
        counted = time.perf_counter()
        yield (f"| {policy.name} | {planned - started:.1f} | {placed} | {counted - planned:.2f} |")
    yield ""


def fragmentation(load: float) -> Iterator[str]:
    """Play one generated trace under each policy."""
    text = traces.generate(
        pods=PODS, cards=NODES // 10 * CARDS, load=load, seed=SEED, mean_seconds=MEAN_SECONDS
    )
    units = node(CARDS).cards[0].memory_units
    trace = parse_trace("generated", text, card_memory_units=units)
    several = cluster(NODES // 10)
    workload = workload_of((each.request, each.count) for each in trace)
    yield f"## A generated trace that asks for {load:.0%} of {NODES // 10} nodes of {CARDS} cards"
    yield ""
    yield (
        f"{len(trace)} pods in the columns of the FGD paper's trace, seed {SEED} "
        "(`tests/benchmarks/traces.py`). Fragmented cards are the mean over the time of arrivals; "
        "pair cost is that of an average pair of cards of one pod."
    )
    yield ""
    yield "| policy | fragmented cards | in use | mean wait, s | pair cost | run, s |"
    yield "|---|---|---|---|---|---|"
    known = [policies.named(name, workload) for name in policies.NAMES]
    for policy in (Binpack(), *known):
        yield _line(policy, several, trace, workload)
    yield ""


def saturation() -> Iterator[str]:
    """Fill a cluster with pods that never end, as the FGD paper does, and count what is left."""
    several = cluster(NODES // 10)
    cards = len(several) * CARDS
    text = traces.generate(pods=PODS, cards=cards, load=1.0, seed=SEED, mean_seconds=MEAN_SECONDS)
    units = several[0].cards[0].memory_units
    pods, asked = [], 0
    for number, each in enumerate(parse_trace("generated", text, card_memory_units=units)):
        if asked >= OVERSUBSCRIBED * cards * CORES_PER_CARD:
            break
        pods.append(Pod(namespace="default", name=str(number), request=each.request))
        asked += sum(container.cores for container in each.request.containers)
    workload = workload_of((each.request, 1) for each in pods)
    yield f"## Pods that never end, until they ask for {OVERSUBSCRIBED:.0%} of {cards} cards"
    yield ""
    yield f"The same {len(pods)} pods in the same order; unallocated is the FGD paper's measure."
    yield ""
    yield "| policy | pods placed | unallocated cards | of all |"
    yield "|---|---|---|---|"
    for policy in (Binpack(), *(policies.named(name, workload) for name in policies.NAMES)):
        plan = what_if.plan(settle(several, ()), pods, policy)
        free = sum(each.free_cores(index) for each in plan.nodes for index in range(CARDS))
        left = free / CORES_PER_CARD
        yield f"| {policy.name} | {len(plan.placed)} | {left:.1f} | {left / cards:.1%} |"
    yield ""


def _line(
    policy: Policy, several: tuple[Node, ...], trace: tuple[Arrival, ...], workload: Workload
) -> str:
    started = time.perf_counter()
    run = replay.run(several, trace, policy, workload)
    seconds = time.perf_counter() - started
    end = trace[-1].at
    cards = sum(len(each.cards) for each in several)

    def fragmented(moment: Moment) -> float:
        return ratio(moment.load.fragmented, workload)

    def used(moment: Moment) -> float:
        return moment.load.cores / (100 * cards)

    return (
        f"| {policy.name} | {replay.mean(run.moments, end, fragmented):.2f} | "
        f"{replay.mean(run.moments, end, used):.1%} | {_mean_wait(run):.0f} | "
        f"{_pair_cost(several, run):.1f} | {seconds:.1f} |"
    )


def _mean_wait(run: Run) -> float:
    return run.waited_seconds / run.placed if run.placed else 0.0


def _pair_cost(several: tuple[Node, ...], run: Run) -> float:
    """Return the mean cost of all pairs of cards that one container holds together."""
    links = several[0]
    costs = [
        links.link(one, two).cost
        for placement in run.placements
        for container in placement.containers
        for one, two in itertools.combinations(container.minors, 2)
    ]
    return sum(costs) / len(costs) if costs else 0.0
