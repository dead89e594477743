"""What there is: cards, what is taken of each, and the node that holds them.

A node with something taken is a new node that shares its cards and links with the old one.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpustack.model import units
from gpustack.model.topology import link_level
from gpustack.model.use import IDLE, Use


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One GPU as the driver describes it.

    Attributes:
        minor: the number in `/dev/nvidia<minor>`, which names the card on its node.
        uuid: the driver's identifier; empty on nodes that don't publish their cards.
        model: the driver's full name, with its spaces.
        memory_bytes: total memory, bytes.
        sms: streaming multiprocessors; 0 where unknown.
        numa: NUMA node, None where unknown.
        bus: PCI address.
        healthy: False while the card may take no new work; `since` and `reason` say more.
    """

    minor: int
    uuid: str
    model: str
    memory_bytes: int
    sms: int = 0
    numa: int | None = None
    bus: str = ""
    healthy: bool = True
    since: str = ""
    reason: str = ""

    @property
    def memory_units(self) -> int:
        """Memory units that the card can hand out (256 MiB each, floored)."""
        return units.memory_units(self.memory_bytes)

    @property
    def whole(self) -> Use:
        """What a pod takes that takes the whole card."""
        return Use(cores=units.CORES_PER_CARD, memory_units=self.memory_units)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A host with its cards, how they are joined, and what is taken of each.

    Attributes:
        name: the node's name in Kubernetes.
        cards: ascending by minor.
        links: tokens of all pairs in the order of `cards`; empty where they are unknown, and then
            every pair counts as the farthest.
        paths: the same with the PCIe path of every pair, also of those that NVLink joins; or empty.
        uses: what is taken of each card, in the order of `cards`; left out, nothing is.
        driver: driver version, empty where unknown.
        cuda: CUDA version of the driver, empty where unknown.
        pool: the operator's name for a group of nodes (`quota`), empty where it has none.
    """

    name: str
    cards: tuple[Card, ...] = ()
    links: link_level.Links = ()
    paths: link_level.Links = ()
    uses: tuple[Use, ...] = ()
    driver: str = ""
    cuda: str = ""
    pool: str = ""

    def __post_init__(self) -> None:
        """Check the shapes.

        Raises:
            ValueError: minors that don't ascend; links, paths or uses of another length than cards.
        """
        if not self.uses:
            object.__setattr__(self, "uses", (IDLE,) * len(self.cards))
        minors = [card.minor for card in self.cards]
        if any(low >= high for low, high in itertools.pairwise(minors)):
            raise ValueError(f"the minors of node {self.name!r} don't ascend: {minors}")
        if len(self.uses) != len(self.cards):
            raise ValueError(f"node {self.name!r}: {len(self.uses)} uses, {len(minors)} cards")
        for tokens in (self.links, self.paths):
            if tokens and len(tokens) != len(minors):
                raise ValueError(f"node {self.name!r}: {len(tokens)} links, {len(minors)} cards")

    def link(self, first: int, second: int) -> link_level.Link:
        """Return how the cards at two positions of `cards` are joined."""
        if self.links:
            return link_level.parse_link(self.links[first][second])
        same = first == second
        return link_level.parse_link(link_level.SELF_TOKEN if same else link_level.FARTHEST_TOKEN)

    @property
    def healthy(self) -> list[int]:
        """The positions of the healthy cards."""
        return [index for index, card in enumerate(self.cards) if card.healthy]

    @property
    def free_totals(self) -> tuple[int, int]:
        """The free cores and the free memory units of all healthy cards."""
        healthy = self.healthy
        return sum(map(self.free_cores, healthy)), sum(map(self.free_memory_units, healthy))

    def free_cores(self, index: int) -> int:
        """Return what is left of the compute of the card at `index`, never below 0."""
        return max(0, units.CORES_PER_CARD - self.uses[index].cores)

    def free_memory_units(self, index: int) -> int:
        """Return what is left of the memory of the card at `index`, never below 0."""
        return max(0, self.cards[index].memory_units - self.uses[index].memory_units)

    def index_of(self, minor: int) -> int | None:
        """Return the position of the card with this minor, None where there is none."""
        for index, card in enumerate(self.cards):
            if card.minor == minor:
                return index
        return None

    def indexes_of(self, minors: Iterable[int]) -> tuple[int, ...]:
        """Return the positions of the cards with these minors; a missing one is passed over."""
        return tuple(index for index in map(self.index_of, minors) if index is not None)

    def with_uses(self, uses: tuple[Use, ...]) -> "Node":
        """Return the same node with other uses; cards and links are shared."""
        return replace(self, uses=uses)


def arrange(
    cards: tuple[Card, ...], links: link_level.Links
) -> tuple[tuple[Card, ...], link_level.Links]:
    """Bring cards and their links into ascending order of minors, whatever order they came in."""
    order = sorted(range(len(cards)), key=lambda index: cards[index].minor)
    arranged = tuple(cards[index] for index in order)
    return arranged, tuple(tuple(links[a][b] for b in order) for a in order) if links else ()
