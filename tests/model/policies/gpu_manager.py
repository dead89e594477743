"""A second gpu-manager: the original's tree and its three evaluators, from their description.

This module uses no code of the model. The tree keeps what the original keeps (a mask for each
group; an occupied card is cleared in the masks of all groups above it), and the evaluators do what
the original does, step by step. The original left ties to the order of a hash map; here a tie goes
to the group that was made first, as it did up to v1.1.5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

LEVELS = {"INTERNAL": 10, "SINGLE": 10, "PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}
ROOT = 60


@dataclass(eq=False, slots=True)
class Group:
    """A node of the original's tree; a card is a group of level 0."""

    level: int
    number: int  # of a group its place in the order of making; of a card its own
    mask: int  # what is available below
    parent: "Group | None" = None
    children: list["Group"] = field(default_factory=list)

    @property
    def available(self) -> int:
        return self.mask.bit_count()

    def lowest(self, count: int) -> tuple[int, ...]:
        bits = [bit for bit in range(self.mask.bit_length()) if self.mask >> bit & 1]
        return tuple(bits[:count]) if len(bits) >= count else ()


@dataclass(slots=True)
class Tree:
    """The tree with its leaves, and what each has left."""

    root: Group
    leaves: list[Group]
    cores: list[int]
    blocks: list[int]

    def occupy(self, card: int, cores: int, blocks: int) -> None:
        """Take a part of a card; the groups above do not count the card from then on."""
        above = self.leaves[card].parent
        while above is not None:
            above.mask &= ~(1 << card)
            above = above.parent
        whole = cores >= 100
        self.cores[card] = 0 if whole else max(0, self.cores[card] - cores)
        self.blocks[card] = 0 if whole else max(0, self.blocks[card] - blocks)


def build(links: Sequence[Sequence[str]], blocks: int = 64) -> Tree:
    """Join pairs into groups level by level, then find the parent of each group."""
    size = len(links)
    groups: dict[int, list[Group]] = {level: [] for level in (10, 20, 30, 40, 50)}
    for made, (a, b) in enumerate(combinations(range(size), 2)):
        pair, same = 1 << a | 1 << b, groups[LEVELS[links[a][b]]]
        first = next((group for group in same if group.mask & pair), None)
        if first is None:
            same.append(Group(LEVELS[links[a][b]], made, pair))
        else:
            first.mask |= pair
    root = Group(ROOT, 0, 0)
    leaves = [Group(0, card, 1 << card) for card in range(size)]
    for leaf in leaves:
        at = leaf
        for same in groups.values():
            above = next((group for group in same if group.mask & at.mask), None)
            if above is not None:
                at.parent, at = above, above
    tops = next((groups[level] for level in (50, 40, 30, 20, 10) if groups[level]), leaves)
    for top in tops:
        top.parent = root
        root.mask |= top.mask
    for leaf in leaves:
        child = leaf
        while child.parent is not None:
            if child not in child.parent.children:
                child.parent.children.append(child)
            child = child.parent
    return Tree(root, leaves, [100] * size, [blocks] * size)


def evaluate(tree: Tree, cores: int, blocks: int) -> tuple[int, ...]:
    """Choose cards as gpu-manager's Allocate does; empty where it finds none."""
    if cores > 100:
        return link(tree, cores // 100)
    return fragment(tree) if cores == 100 else share(tree, cores, blocks)


def link(tree: Tree, count: int) -> tuple[int, ...]:
    """Climb from each card to the first group with enough cards; take the nearest of these."""
    met: dict[int, Group] = {}
    for leaf in tree.leaves:
        at: Group | None = leaf
        while at is not None and at.available < count:
            at = at.parent
        if at is not None and at is not tree.root:
            met[id(at)] = at
    found = sorted(met.values(), key=lambda group: (group.level, group.available, group.number))
    return (found or [tree.root])[0].lowest(count)


def fragment(tree: Tree) -> tuple[int, ...]:
    """Walk down into the smallest group that still has a card; a lone card is no group."""
    at = tree.root
    while True:
        order = sorted(at.children, key=lambda group: (group.available, group.number))
        inner = [group for group in order if group.children and group.available >= 1]
        if not inner:
            return at.lowest(1)
        at = inner[0]


def share(tree: Tree, cores: int, blocks: int) -> tuple[int, ...]:
    """Take the card with the least free cores, then blocks, that are enough."""
    order = sorted(range(len(tree.leaves)), key=lambda i: (tree.cores[i], tree.blocks[i], i))
    fits = [i for i in order if tree.cores[i] >= cores and tree.blocks[i] >= blocks]
    return tuple(fits[:1])


def shape(group: Group) -> object:
    """A card's number, or (level, shapes of the children in any order)."""
    if group.level == 0:
        return group.number
    return group.level, frozenset(shape(child) for child in group.children)


def taken(tree: Tree, uses: Mapping[int, tuple[int, int]]) -> Tree:
    """Occupy several cards."""
    for card, (cores, blocks) in uses.items():
        tree.occupy(card, cores, blocks)
    return tree
