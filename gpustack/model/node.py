"""What there is: cards, what is taken of each, and the node that holds them.

All values are frozen. A node with something taken is a new node that shares its cards and links
with the old one, so trying a placement costs O(its cards).
"""

import functools
import itertools
import re
from dataclasses import dataclass, replace
from typing import Final

from gpustack.model import topology, units

_LABEL_MAX: Final = 63  # longest value of a Kubernetes label
_NOT_LABEL: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LABEL_EDGE: Final = "-_."  # a label's value begins and ends with a letter or a digit


@functools.lru_cache(maxsize=1024)  # a cluster has few models; quota asks for them all the time
def label_safe_model(model: str) -> str:
    """Return a model's full name as a label can hold it: `NVIDIA-A100-SXM4-80GB`."""
    name = _NOT_LABEL.sub("-", model).strip(_LABEL_EDGE)
    return name[:_LABEL_MAX].rstrip(_LABEL_EDGE)


@functools.lru_cache(maxsize=4096)
def model_matches(pattern: str, model: str) -> bool:
    """Say whether a model name of a user or a quota means this card.

    It does when it equals, without regard to case, the label-safe full name or one of its
    dash-separated words: `A100` means `NVIDIA A100-SXM4-80GB`, `A10` does not.
    """
    name = label_safe_model(model).casefold()
    wanted = pattern.casefold()
    return bool(wanted) and (wanted == name or wanted in name.split("-"))


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
    def whole(self) -> "Use":
        """What a pod takes that takes the whole card."""
        return Use(cores=units.CORES_PER_CARD, memory_units=self.memory_units)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What is taken of one card; may exceed the card where somebody over-committed it."""

    cores: int = 0
    memory_units: int = 0

    @property
    def idle(self) -> bool:
        """True when nothing at all is taken."""
        return self.cores == 0 and self.memory_units == 0

    def __add__(self, other: "Use") -> "Use":
        return Use(
            cores=self.cores + other.cores, memory_units=self.memory_units + other.memory_units
        )

    def __sub__(self, other: "Use") -> "Use":
        return Use(
            cores=self.cores - other.cores, memory_units=self.memory_units - other.memory_units
        )

    def __or__(self, other: "Use") -> "Use":
        """Return the larger of each: what two holders need that never run at once."""
        return Use(
            cores=max(self.cores, other.cores),
            memory_units=max(self.memory_units, other.memory_units),
        )


IDLE: Final = Use()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A host with its cards, how they are joined, and what is taken of each.

    Attributes:
        name: the node's name in Kubernetes.
        cards: ascending by minor.
        links: tokens of all pairs in the order of `cards`; empty where nobody published them, and
            then every pair counts as the farthest.
        paths: the same with the PCIe path of every pair, also of those that NVLink joins; may be
            empty, and then `links` says all that is known.
        uses: what is taken of each card, in the order of `cards`; left out, nothing is.
        driver: driver version, empty where unknown.
        cuda: CUDA version of the driver, empty where unknown.
        pool: the operator's name for a group of nodes (`quota`), empty where it has none.
    """

    name: str
    cards: tuple[Card, ...] = ()
    links: topology.Links = ()
    paths: topology.Links = ()
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

    def link(self, first: int, second: int) -> topology.Link:
        """Return how the cards at two positions of `cards` are joined."""
        if self.links:
            return topology.parse_link(self.links[first][second])
        same = first == second
        return topology.parse_link(topology.SELF_TOKEN if same else topology.FARTHEST_TOKEN)

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

    def with_uses(self, uses: tuple[Use, ...]) -> "Node":
        """Return the same node with other uses; cards and links are shared."""
        return replace(self, uses=uses)


def arrange(
    cards: tuple[Card, ...], links: topology.Links
) -> tuple[tuple[Card, ...], topology.Links]:
    """Bring cards and their links into ascending order of minors, whatever order they came in."""
    order = sorted(range(len(cards)), key=lambda index: cards[index].minor)
    arranged = tuple(cards[index] for index in order)
    return arranged, tuple(tuple(links[a][b] for b in order) for a in order) if links else ()
