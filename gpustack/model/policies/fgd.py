"""`fgd`: fragmentation gradient descent (Weng et al., USENIX ATC 2023).

Of all nodes and cards that can serve a pod, the one on which fragmentation grows least. What counts
as fragmentation depends on what users tend to ask, so the policy holds a workload; with an empty
one nothing is ever fragmented, and it decides as `exact`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from gpustack.model.node import Node
from gpustack.model.placement import Placement, apply
from gpustack.model.policies.base import Policy
from gpustack.model.policies.fragmentation import NOTHING_KNOWN, Workload, fragmented, growth
from gpustack.model.request import ContainerRequest, PodRequest
from gpustack.model.search.demand import Demand


@dataclass(frozen=True, slots=True)
class Fgd(Policy):
    """Least increase of fragmentation under a workload; best fit breaks ties."""

    name: ClassVar[str] = "fgd"
    weighs_placements: ClassVar[bool] = True
    workload: Workload = field(default=NOTHING_KNOWN)

    def shares(
        self, node: Node, request: PodRequest, container: ContainerRequest, fitting: Iterable[int]
    ) -> list[int]:
        """Order by the increase; the sort is stable, so best fit stands behind it."""
        best_fit = Policy.shares(self, node, request, container, fitting)
        return sorted(best_fit, key=growth(node, self.workload, container.share))

    def wholes(
        self, node: Node, request: PodRequest, demand: Demand, exact: Iterator[tuple[int, ...]]
    ) -> Iterator[tuple[int, ...]]:
        """Yield the sets by the increase.

        Idle cards of one size are alike to the measure, so the objective of `exact` decides; only
        cards of different sizes need all sets listed.
        """
        del request
        if len({node.cards[index].memory_units for index in demand.candidates}) < 2:
            return exact
        return iter(sorted(exact, key=lambda cards: self._taking(node, cards)))

    def increase(self, node: Node, placement: Placement) -> int:
        """Return how much fragmentation grows: hundredths of a card times the total weight."""
        after = fragmented(apply(node, placement), self.workload)
        return after - fragmented(node, self.workload)

    def _taking(self, node: Node, cards: tuple[int, ...]) -> int:
        uses = tuple(
            node.cards[index].whole if index in cards else use
            for index, use in enumerate(node.uses)
        )
        return fragmented(node.with_uses(uses), self.workload)
