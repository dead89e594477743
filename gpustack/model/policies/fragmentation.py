"""How much of what is free can't be used: the measure of FGD.

"Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent"
(Weng et al., USENIX ATC 2023) measures a node by what its users tend to ask. For one shape of
request, the free compute of a node is fragmented

- in full, where the node can't serve the shape at all;
- else on those cards that can't serve it: a share needs its cores and memory on one card, whole
  cards must be wholly free.

The node's fragmentation is the mean over the shapes, weighted by how often each is asked. As in the
paper, free compute is what counts; memory decides only whether a card can serve. Everything is an
integer (hundredths of a card times weight), so that two nodes compare without rounding.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from gpustack.model.node import Node
from gpustack.model.placement import Placement
from gpustack.model.request import ContainerKind, PodRequest
from gpustack.model.units import CORES_PER_CARD
from gpustack.model.use import Use

_MOST_SHAPES: Final = 256  # a cluster's users ask for some dozens


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Shape:
    """What one container asks: 1..99 cores with memory units, or 100 n cores (memory ignored)."""

    cores: int
    memory_units: int

    @property
    def whole_cards(self) -> int:
        """How many whole cards; 0 for a share."""
        return self.cores // CORES_PER_CARD


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What users tend to ask: shapes, each with how often it is asked (a weight above 0)."""

    shapes: tuple[tuple[Shape, int], ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the weights, and hash once: the workload is part of the key of every cache.

        Raises:
            ValueError: a weight that is not above 0.
        """
        for shape, weight in self.shapes:
            if weight <= 0:
                raise ValueError(f"the weight of {shape} must be above 0: {weight}")
        object.__setattr__(self, "_hash", hash(self.shapes))

    def __hash__(self) -> int:
        return self._hash

    @property
    def total(self) -> int:
        """The sum of all weights."""
        return sum(weight for _, weight in self.shapes)


NOTHING_KNOWN: Final = Workload(shapes=())


def workload_of(pods: Iterable[tuple[PodRequest | Placement, int]]) -> Workload:
    """Count the shapes of pods, waiting or placed, each pod with how often it is asked.

    A pod counts by its containers: each needs cards of its own. Ordinary init containers use the
    cards of the others and are left out. Of very many shapes the commonest count: each card is
    measured by each of them, and one user can ask for thousands.
    """
    counts: Counter[Shape] = Counter()
    for pod, times in pods:
        for container in pod.containers:
            if container.kind is not ContainerKind.INIT:
                memory = container.memory_units if container.is_share else 0
                counts[Shape(cores=container.cores, memory_units=memory)] += times
    common = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:_MOST_SHAPES]
    return Workload(shapes=tuple(sorted(common)))


def fragmented(node: Node, workload: Workload) -> int:
    """Return the node's fragmentation: hundredths of a card, times the workload's total weight.

    Unhealthy cards have nothing to hand out, so nothing of them is fragmented.
    """
    on_card = _on_cards(workload)
    return _of_whole_cards(workload, *_free(node)) + sum(
        on_card(node.free_cores(index), node.free_memory_units(index)) for index in node.healthy
    )


def growth(node: Node, workload: Workload, share: Use) -> Callable[[int], int]:
    """Return by how much the node's fragmentation grows when a share goes to a card.

    The function returned takes the position of a healthy card that has room. It is what
    `fragmented` says after less before, without looking at the other cards again.
    """
    idle, room = _free(node)
    before, on_card = _of_whole_cards(workload, idle, room), _on_cards(workload)

    def grows(index: int) -> int:
        cores, units = node.free_cores(index), node.free_memory_units(index)
        still_idle = idle - 1 if node.uses[index].idle else idle
        return (
            _of_whole_cards(workload, still_idle, room - share.cores)
            - before
            + on_card(cores - share.cores, units - share.memory_units)
            - on_card(cores, units)
        )

    return grows


def ratio(amount: int, workload: Workload) -> float:
    """Return a sum of `fragmented` in cards; 0 where no workload is known."""
    total = workload.total
    return amount / (total * CORES_PER_CARD) if total else 0.0


def _free(node: Node) -> tuple[int, int]:
    """Return how many cards are idle, and how much compute is free in all."""
    healthy = node.healthy
    return sum(node.uses[index].idle for index in healthy), sum(map(node.free_cores, healthy))


def _of_whole_cards(workload: Workload, idle: int, room: int) -> int:
    """Return the fragmented part of a node for all whole-card shapes, times their weights."""
    reachable, beyond = _whole_weights(workload)(idle)
    return reachable * (room - CORES_PER_CARD * idle) + beyond * room


# What is remembered goes with its workload: one has up to 256 shapes, and users ask for others each
# minute. An extender has two at a time, its metrics' and its policy's.
_WORKLOADS: Final = 4


@functools.lru_cache(maxsize=_WORKLOADS)
def _on_cards(workload: Workload) -> Callable[[int, int], int]:
    """Return what gives the fragmented part of one card for all shares, times their weights.

    It takes the card's free cores and memory units. Where no card of the node serves a share, each
    is fragmented in full: the paper's two cases give the same sum here.
    """
    shares = [(shape, weight) for shape, weight in workload.shapes if not shape.whole_cards]

    @functools.lru_cache(maxsize=65_536)  # a card has few states, and a node few cards
    def on_card(cores: int, memory_units: int) -> int:
        return cores * sum(
            weight
            for shape, weight in shares
            if shape.cores > cores or shape.memory_units > memory_units
        )

    return on_card


@functools.lru_cache(maxsize=_WORKLOADS)
def _whole_weights(workload: Workload) -> Callable[[int], tuple[int, int]]:
    """Return what gives the weights of whole-card shapes that idle cards can serve, and others'."""
    whole = [(shape.whole_cards, weight) for shape, weight in workload.shapes if shape.whole_cards]
    total = sum(weight for _, weight in whole)

    @functools.lru_cache(maxsize=512)  # a node has 256 cards at most
    def of_idle(idle: int) -> tuple[int, int]:
        reachable = sum(weight for cards, weight in whole if cards <= idle)
        return reachable, total - reachable

    return of_idle
