"""What a policy decides, and what the default one does.

`place` finds what is possible: health, the user's conditions, capacity, and taking a choice
back when it blocks another container. A policy only says in which order to try, so under every
policy a pod is refused only where nothing fits. Writing one means overriding one to three methods;
a policy is a frozen value, compared and hashed by what it holds.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from gpustack.model.node import Node
from gpustack.model.placement import Placement
from gpustack.model.request import ContainerRequest, PodRequest, Strategy
from gpustack.model.search.demand import Demand


@dataclass(frozen=True, slots=True)
class Policy:
    """`exact`: best sets of whole cards, best fit for shares and nodes."""

    name: ClassVar[str] = "exact"
    weighs_placements: ClassVar[bool] = False
    """True where `increase` says something: all nodes must answer before one can be chosen."""

    def read(self, request: PodRequest) -> PodRequest:
        """Return the pod as this policy understands it: with other strategies, or as it is."""
        return request

    def shares(
        self, node: Node, request: PodRequest, container: ContainerRequest, fitting: Iterable[int]
    ) -> list[int]:
        """Order the cards (positions in `node.cards`) that a share fits on, best first.

        Best fit: fewest free cores, then fewest free memory units, then the lowest minor; to
        spread, the most.
        """
        del container  # a best fit looks at what is there only
        sign = -1 if request.card_strategy is Strategy.SPREAD else 1
        return sorted(
            fitting,
            key=lambda i: (sign * node.free_cores(i), sign * node.free_memory_units(i), i),
        )

    def wholes(
        self, node: Node, request: PodRequest, demand: Demand, exact: Iterator[tuple[int, ...]]
    ) -> Iterator[tuple[int, ...]]:
        """Yield the sets of cards for a container of whole cards, best first; all of them.

        ``exact`` yields them in the order of the objective, and searches only as far as it is read.
        """
        del node, request, demand
        return exact

    def fullness(self, node: Node, strategy: Strategy) -> tuple[int, ...]:
        """Return a node's place in the order of nodes, lowest first; names break ties.

        Binpack takes the fullest node first: fewest free cores, then fewest free memory units;
        spread the emptiest.
        """
        cores, memory = node.free_totals
        return (-cores, -memory) if strategy is Strategy.SPREAD else (cores, memory)

    def increase(self, node: Node, placement: Placement) -> int:
        """Return what the placement costs the node; it is compared before `fullness`."""
        del node, placement
        return 0


def with_strategy(request: PodRequest, strategy: Strategy) -> PodRequest:
    """Return the pod as one that asks for this strategy on nodes and on cards."""
    if request.node_strategy is request.card_strategy is strategy:
        return request
    return replace(request, node_strategy=strategy, card_strategy=strategy)
