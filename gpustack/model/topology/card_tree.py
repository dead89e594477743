"""The tree of a node's cards: groups within groups, by what their paths have in common.

The shape is the original's: a root, below it a group for every switch, host bridge, NUMA node and
machine that joins at least two smaller things, and the cards as leaves. A card that hangs alone
hangs under the first group that it belongs to; where nothing is known, directly under the root.

Two groups meet at a level when any pair of their cards is joined at that level or nearer. On a
hierarchical matrix (of any three pairs between three cards the two farthest are equal) this gives
the original's tree; on any other it still gives a partition at every level.

NVLink is no level of the tree: it says nothing of the path through PCIe, and the original doesn't
ask for it. The path of such a pair is taken

1. from `Node.paths`, where it is known (NVML tells both, `nvidia-smi topo -mp` the path only);
2. else from the cards' NUMA nodes: SYSTEM between two nodes, CPU within one, which are bounds that
   always hold, and a nearer path over other cards still brings the two together earlier;
3. else SYSTEM: it is one machine.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from gpustack.model.lru import remembered
from gpustack.model.node import Node
from gpustack.model.topology.link_level import Level, Links, parse_link


class TreeLevel(IntEnum):
    """What the cards below a branch have in common; NVML's numbers (nvmlGpuTopologyLevel_t).

    NVML's 0 is INTERNAL, two GPUs on one board. Here 0 is the card itself, and such a pair meets at
    SINGLE, as in the original.
    """

    CARD = 0
    SINGLE = 10
    MULTIPLE = 20
    HOSTBRIDGE = 30
    CPU = 40
    SYSTEM = 50
    ROOT = 60


_GROUP_LEVELS: Final = tuple(
    level for level in TreeLevel if TreeLevel.CARD < level < TreeLevel.ROOT
)

_LEVELS: Final[Mapping[Level, TreeLevel]] = {
    Level.PIX: TreeLevel.SINGLE,
    Level.PXB: TreeLevel.MULTIPLE,
    Level.PHB: TreeLevel.HOSTBRIDGE,
    Level.NODE: TreeLevel.CPU,
    Level.SYS: TreeLevel.SYSTEM,
}

Numas = tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """The root, a group, or a card.

    Attributes:
        level: what the cards below have in common.
        cards: their positions in the node, ascending; never empty but for a root without cards.
        children: by lowest card; together they hold every one of `cards` once. Empty for a card.
    """

    level: TreeLevel
    cards: tuple[int, ...]
    children: tuple["Branch", ...] = ()


def of(node: Node) -> Branch:
    """Return the tree of a node's cards; see `build`."""
    numas = tuple(card.numa for card in node.cards)
    return build(len(node.cards), node.links, numas, node.paths)


# As many kinds of machine as a cluster may have: of 8 cards 3 KB each, of 256 1 MB.
@remembered(
    16 << 20,
    lambda size, links, _=(), paths=(): 512 + size * (400 + 8 * (len(links) + len(paths))),
)
def build(size: int, links: Links, numas: Numas = (), paths: Links = (), /) -> Branch:
    """Return the root of the tree of `size` cards.

    Args:
        size: how many cards there are.
        links: tokens of all pairs; empty where they are unknown, and then all cards hang directly
            under the root.
        numas: the NUMA node of each card; may be left out.
        paths: tokens of all pairs with the PCIe path where `links` has an NVLink; may be left out.
    """
    parts = [Branch(level=TreeLevel.CARD, cards=(card,)) for card in range(size)]
    if links:
        known = numas or (None,) * size
        distances = tuple(
            tuple(_distance(links, known, paths, a, b) for b in range(size)) for a in range(size)
        )
        for level in _GROUP_LEVELS:
            parts = _join(parts, level, distances)
    return Branch(level=TreeLevel.ROOT, cards=tuple(range(size)), children=tuple(parts))


def walk(branch: Branch) -> Iterator[Branch]:
    """Yield a branch and all below it, each before its children."""
    yield branch
    for child in branch.children:
        yield from walk(child)


def _distance(links: Links, numas: Numas, paths: Links, a: int, b: int) -> TreeLevel:
    """Return where the PCIe paths of two cards meet, or the nearest level that is sure to hold."""
    for tokens in (links, paths):
        level = parse_link(tokens[a][b]).level if tokens else Level.NVLINK
        if level in _LEVELS:
            return _LEVELS[level]
    one, two = numas[a], numas[b]
    same = one is not None and one == two
    return TreeLevel.CPU if same else TreeLevel.SYSTEM


def _join(
    parts: list[Branch], level: TreeLevel, distances: tuple[tuple[TreeLevel, ...], ...]
) -> list[Branch]:
    """Put together what meets at `level`; what meets nothing stays as it is."""
    waiting = list(parts)
    joined = []
    while waiting:
        members = [waiting.pop(0)]
        for member in members:  # grows while it is walked: a member brings what meets it
            asked, waiting = waiting, []
            for other in asked:
                (members if _meet(member, other, level, distances) else waiting).append(other)
        joined.append(members[0] if len(members) == 1 else _group(level, members))
    return joined


def _meet(
    one: Branch, two: Branch, level: TreeLevel, distances: tuple[tuple[TreeLevel, ...], ...]
) -> bool:
    return any(distances[a][b] <= level for a in one.cards for b in two.cards)


def _group(level: TreeLevel, members: list[Branch]) -> Branch:
    children = tuple(sorted(members, key=lambda member: member.cards))
    cards = tuple(sorted(card for child in children for card in child.cards))
    return Branch(level=level, cards=cards, children=children)
