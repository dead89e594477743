"""How much work one pod may cost on one node, and what the answer owes to that bound.

To fit many containers onto cards is bin packing, and to find sets of cards that are all joined is
no easier: a pod, or a node's matrix, can be made so that an exact answer takes years. Work is
counted in looks at cards, not in seconds, so the same question always has the same answer.
"""

from dataclasses import dataclass, field
from typing import Final

from gpustack.model.topology.link_level import Level

# A look takes one to two microseconds, and a scheduler asks hundreds of nodes within seconds. Of
# random pods of 24 containers that want 92% of what 16 cards have free, one in sixty comes here.
MOST_LOOKS: Final = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """What a search that was stopped has not ruled out.

    Attributes:
        level: the nearest worst pair that a better set of cards could have.
        cost: the lowest sum of pair costs that it could have.
    """

    level: Level
    cost: int


@dataclass(slots=True)
class SearchBudget:
    """The work that is left for one pod on one node.

    Attributes:
        left: looks; below 0 no choice is taken back any more.
        cut: True once something was left out that might have mattered.
        gaps: for sets of cards that are not proven the best ones, how much better one could be.
    """

    left: int = MOST_LOOKS
    cut: bool = False
    gaps: dict[tuple[int, ...], Gap] = field(default_factory=dict)

    def spend(self, looks: int) -> None:
        """Count work that was done, or is about to be."""
        self.left -= looks

    def note(self, cards: tuple[int, ...], gap: Gap | None) -> None:
        """Remember how far from the best this set may be; None: it is the best."""
        self.gaps.pop(cards, None)
        if gap is not None:
            self.gaps[cards] = gap
