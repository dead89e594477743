"""A node's cards as text: the original's `/graph`, the access-cost tree, a matrix, a plain tree.

All four draw the tree of `gpustack.model.topology.card_tree` with its children sorted as the
original prints them: nearest level first, then fewest available cards, then lowest minor. A group's
cards are available when they are healthy and nothing at all is taken of them; for the order among
the cards of a group each counts as available. Every text ends with a newline.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gpustack.model.node import Node
from gpustack.model.topology.card_tree import Branch, TreeLevel
from gpustack.model.topology.link_level import Level
from gpustack.model.units import CORES_PER_CARD, MEMORY_UNIT_BYTES

# The original says CPU where today's tools and our tokens say NODE.
_ORIGINAL_NAMES: Final[Mapping[TreeLevel, str]] = {
    TreeLevel.SINGLE: "PIX",
    TreeLevel.MULTIPLE: "PXB",
    TreeLevel.HOSTBRIDGE: "PHB",
    TreeLevel.CPU: "CPU",
    TreeLevel.SYSTEM: "SYS",
    TreeLevel.ROOT: "ROOT",
}
NAMES: Final[Mapping[TreeLevel, str]] = {**_ORIGINAL_NAMES, TreeLevel.CPU: Level.NODE.name}
"""What root and groups are called in our own texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLoad:
    """What runs on a card now: host PIDs, and the bytes of card memory that they hold."""

    pids: tuple[int, ...] = ()
    used_bytes: int = 0


_IDLE: Final = CardLoad()


def graph(node: Node, root: Branch, activity: Mapping[int, CardLoad] | None = None) -> str:
    """Return the original's `/graph` text (gpu-manager, PrintGraph).

    Args:
        node: the cards and what is taken of them.
        root: their tree.
        activity: by minor; a card that isn't there is idle.
    """
    running = activity or {}
    lines = [f"ROOT:{_available(node, root)}"]
    for depth, branch in _printed(node, root):
        of_cards = [running.get(node.cards[card].minor, _IDLE) for card in branch.cards]
        pids = " ".join(str(pid) for each in of_cards for pid in each.pids)
        total = sum(node.cards[card].memory_bytes for card in branch.cards)
        cores, free = _allocatable(node, branch)
        aval = "" if _is_card(branch) else f"aval: {_available(node, branch)}, "
        lines.append(
            f"{'|   ' * (depth - 1)}|---{_name(node, branch, _ORIGINAL_NAMES)} ({aval}"
            f"pids: [{pids}], usedMemory: {sum(each.used_bytes for each in of_cards)}, "
            f"totalMemory: {total}, allocatableCores: {cores}, allocatableMemory: {free})"
        )
    return _text(lines)


def costs(node: Node, root: Branch) -> str:
    """Return the access-cost tree: `type:available:cost`, one line a branch.

    Root and groups cost 0. A card costs the number of the group that it hangs in, counted from 1 in
    the order of the drawing, which is the order in which cards are best taken. (The notation is
    that of the blog on gpu-manager's source; no such field exists in gpu-manager.)
    """
    lines = [f"ROOT:{_available(node, root)}:0"]
    numbers: dict[tuple[int, ...], int] = {}
    above: list[Branch] = [root]
    for depth, branch in _printed(node, root):
        del above[depth:]
        if _is_card(branch):
            cost = numbers.setdefault(above[-1].cards, len(numbers) + 1)
        else:
            above.append(branch)
            cost = 0
        name = _name(node, branch, NAMES)
        lines.append(f"{'|  ' * (depth - 1)}|--{name}:{_available(node, branch)}:{cost}")
    return _text(lines)


def matrix(node: Node) -> str:
    """Return the tokens of all pairs and the NUMA nodes, laid out like `nvidia-smi topo -m`.

    `gpustack.wire.topo.parser` reads it back.
    """
    names = [f"GPU{card.minor}" for card in node.cards]
    lines = ["\t".join(["", *names, "NUMA Affinity"])]
    for row, (name, card) in enumerate(zip(names, node.cards, strict=True)):
        tokens = [node.link(row, column).token for column in range(len(names))]
        cells = [f" {token} " if token == "X" else token for token in tokens]  # noqa: S105
        lines.append("\t".join([name, *cells, "N/A" if card.numa is None else str(card.numa)]))
    return _text(lines)


def plain(node: Node, root: Branch) -> str:
    """Return the tree for people, in ASCII, with the NVLinks that its levels don't show."""
    lines = [f"{len(root.cards)} {'card' if len(root.cards) == 1 else 'cards'}"]
    lines.extend(_plain_lines(node, root, ""))
    return _text(lines)


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _plain_lines(node: Node, branch: Branch, indent: str) -> Iterator[str]:
    children = _sorted(node, branch.children)
    for child in children:
        last = child is children[-1]
        text = _card_text(node, child.cards[0]) if _is_card(child) else NAMES[child.level]
        yield f"{indent}{'`-- ' if last else '|-- '}{text}"
        yield from _plain_lines(node, child, indent + ("    " if last else "|   "))


def _card_text(node: Node, index: int) -> str:
    card = node.cards[index]
    words = [f"GPU{card.minor}", card.model]
    if card.memory_bytes:
        words.append(f"{card.memory_bytes // (1 << 20)} MiB")
    if card.numa is not None:
        words.append(f"NUMA {card.numa}")
    links: dict[str, list[int]] = {}
    for other, peer in enumerate(node.cards):
        link = node.link(index, other)
        if link.level is Level.NVLINK:
            links.setdefault(link.token, []).append(peer.minor)
    words.extend(f"{token} to {_ranges(minors)}" for token, minors in sorted(links.items()))
    return "  ".join(word for word in words if word)


def _ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers the way Linux writes lists of CPUs: `0-2,5`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _printed(node: Node, above: Branch, depth: int = 1) -> Iterator[tuple[int, Branch]]:
    """Yield all branches below one with their depths, in the order of print."""
    for child in _sorted(node, above.children):
        yield depth, child
        yield from _printed(node, child, depth + 1)


def _sorted(node: Node, branches: Iterable[Branch]) -> list[Branch]:
    def key(branch: Branch) -> tuple[TreeLevel, int, tuple[int, ...]]:
        available = 1 if _is_card(branch) else _available(node, branch)
        return branch.level, available, branch.cards

    return sorted(branches, key=key)


def _is_card(branch: Branch) -> bool:
    return branch.level is TreeLevel.CARD


def _name(node: Node, branch: Branch, names: Mapping[TreeLevel, str]) -> str:
    return f"GPU{node.cards[branch.cards[0]].minor}" if _is_card(branch) else names[branch.level]


def _available(node: Node, branch: Branch) -> int:
    return sum(node.cards[card].healthy and node.uses[card].idle for card in branch.cards)


def _allocatable(node: Node, branch: Branch) -> tuple[int, int]:
    """Return cores and bytes that a card can still give; the original says 0 of all groups."""
    if not _is_card(branch):
        return 0, 0
    card, use = node.cards[branch.cards[0]], node.uses[branch.cards[0]]
    if use.cores >= CORES_PER_CARD and use.memory_units >= card.memory_units:
        return 0, 0  # taken whole, with what its memory has beyond whole units
    free_bytes = card.memory_bytes - use.memory_units * MEMORY_UNIT_BYTES
    return node.free_cores(branch.cards[0]), max(0, free_bytes)
