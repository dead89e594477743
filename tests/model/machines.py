"""Machines and requests for the tests, drawn at random or built by hand."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from hypothesis import strategies as st

from gpustack.model.node import Card, Node
from gpustack.model.request import (
    ContainerKind,
    ContainerRequest,
    PodRequest,
    Strategy,
    Topology,
)
from gpustack.model.topology.card_tree import Branch, TreeLevel
from gpustack.model.topology.link_level import Links
from gpustack.model.units import MEMORY_UNIT_BYTES
from gpustack.model.use import Use

TOKENS = ("NV1", "NV2", "NV4", "NV12", "PIX", "PXB", "PHB", "NODE", "SYS")
GIB = 1 << 30


def card(minor: int, memory_units: int = 64, **known: object) -> Card:
    """Return a card of so many memory units; `known` replaces any of its other fields."""
    fields: dict[str, object] = {
        "uuid": f"GPU-{minor}",
        "model": "Tesla P40",
        "memory_bytes": memory_units * MEMORY_UNIT_BYTES,
        **known,
    }
    return Card(minor=minor, **fields)  # type: ignore[arg-type]


def grouped(*sizes: int, within: str = "PIX", across: str = "PHB") -> Links:
    """Return links of consecutive groups of cards, near within a group and far across."""
    group = [number for number, size in enumerate(sizes) for _ in range(size)]
    cards = range(len(group))
    return tuple(
        tuple("X" if a == b else within if group[a] == group[b] else across for b in cards)
        for a in cards
    )


def node(size: int, links: Links = (), taken: dict[int, Use] | None = None) -> Node:
    """Return a node of `size` like cards with minors 0.., some of them taken."""
    uses = tuple((taken or {}).get(minor, Use()) for minor in range(size))
    return Node(name="node", cards=tuple(card(i) for i in range(size)), links=links, uses=uses)


WHOLE = card(0).whole


def pod(*asks: tuple[int, int], **conditions: object) -> PodRequest:
    """Return a pod of containers that ask (cores, memory units); `conditions` are its fields."""
    containers = tuple(
        ContainerRequest(name=f"c{index}", index=index, cores=cores, memory_units=memory)
        for index, (cores, memory) in enumerate(asks)
    )
    return PodRequest(containers=containers, **conditions)  # type: ignore[arg-type]


def with_inits(request: PodRequest, *asks: tuple[int, int]) -> PodRequest:
    """Return the pod with ordinary init containers that ask (cores, memory units)."""
    first = (
        replace(each, name=f"i{each.index}", kind=ContainerKind.INIT)
        for each in pod(*asks).containers
    )
    return replace(request, containers=(*request.containers, *first))


Hierarchy = tuple[list[tuple[int, int, int, int]], Links]
"""Addresses of cards, and the matrix that follows from them."""


def symmetric(size: int, tokens: Mapping[tuple[int, int], str]) -> Links:
    """Return the matrix of pairs (lower card, higher card)."""
    cards = range(size)
    return tuple(
        tuple("X" if a == b else tokens[min(a, b), max(a, b)] for b in cards) for a in cards
    )


@st.composite
def hierarchies(draw: st.DrawFn, most: int = 10) -> Hierarchy:
    """Cards at addresses (node, bridge, outer switch, inner switch, card), and their matrix.

    Two cards meet where their addresses part, which makes every such matrix hierarchical.
    """
    part = st.integers(0, 2)
    addresses = draw(st.lists(st.tuples(part, part, part, part), min_size=1, max_size=most))
    far = ("SYS", "NODE", "PHB", "PXB", "PIX")
    pairs = combinations(range(len(addresses)), 2)
    tokens = {
        (a, b): next((far[at] for at in range(4) if addresses[a][at] != addresses[b][at]), far[-1])
        for a, b in pairs
    }
    return addresses, symmetric(len(addresses), tokens)


@st.composite
def link_matrices(draw: st.DrawFn, size: int, tokens: Sequence[str] = TOKENS) -> Links:
    """Any symmetric matrix: a real host's is hierarchical, a broken host's is not."""
    rows = [["X"] * size for _ in range(size)]
    for a in range(size):
        for b in range(a):
            rows[a][b] = rows[b][a] = draw(st.sampled_from(tokens))
    return tuple(tuple(row) for row in rows)


dice = st.randoms(use_true_random=True)
"""One seed that hypothesis draws.

If hypothesis drew every value, most values would be the smallest or the largest, most pods would be
refused, and drawing would take longer than the test. So hypothesis draws sizes, which it can make
smaller, and the seed gives the rest.
"""

MODELS = ("Tesla P40", "NVIDIA A100-SXM4-80GB", "Tesla T4")
NUMAS: tuple[tuple[int | None, ...], ...] = ((None,), (0, 1), (None, 0, 1))
HIERARCHIES = (("SYS", "PIX"), ("SYS", "PHB", "PIX"), ("SYS", "NODE", "PXB"), ("NODE", "NV4"))
KINDS = (ContainerKind.APP, ContainerKind.APP, ContainerKind.SIDECAR, ContainerKind.INIT)


@st.composite
def nodes(draw: st.DrawFn, most: int = 4, *, used: bool = True) -> Node:
    """Nodes of cards that differ in memory, model, NUMA node and health, in use and over-used."""
    rolled = draw(dice)
    name = rolled.choice(["n1", "n10", "n2"])
    idle = machine(rolled, draw(st.integers(1, most)), name)
    return in_use(rolled, idle) if used else idle


@st.composite
def pods(draw: st.DrawFn, most: int = 3) -> PodRequest:
    """Pods of containers, sidecars and init containers in any mixture."""
    rolled = draw(dice)
    count = draw(st.integers(1, most))
    return PodRequest(
        containers=numbered([(rolled.choice(KINDS), ask(rolled)) for _ in range(count)]),
        topology=rolled.choice(list(Topology)),
        node_strategy=rolled.choice(list(Strategy)),
        card_strategy=rolled.choice(list(Strategy)),
    )


def machine(rolled: random.Random, size: int, name: str = "node") -> Node:
    """Draw an idle node: cards of few kinds; links of a hierarchy, a broken host, or none."""
    sizes = rolled.choices([8, 16, 24], k=rolled.randint(1, 3))
    models = rolled.choices(MODELS, k=rolled.randint(1, 2))
    numas = rolled.choice(NUMAS)
    sick = rolled.choice([0, 0, 0.25])
    cards = tuple(
        card(
            minor,
            rolled.choice(sizes),
            model=rolled.choice(models),
            healthy=rolled.random() >= sick,
            numa=rolled.choice(numas),
        )
        for minor in sorted(rolled.sample(range(16), size))
    )
    return Node(name=name, cards=cards, links=_links(rolled, size))


def _links(rolled: random.Random, size: int) -> Links:
    """Links by where the addresses of two cards part; or any token for any pair; or none."""
    tokens = rolled.choice(HIERARCHIES)
    near = tokens[-1]
    at = [[rolled.randrange(2) for _ in tokens[1:]] for _ in range(size)]
    pairs = {
        (a, b): next((t for t, x, y in zip(tokens, at[a], at[b], strict=False) if x != y), near)
        for a, b in combinations(range(size), 2)
    }
    shape = rolled.random()
    if shape < 0.1:
        return ()
    if shape < 0.4:
        pairs = {pair: rolled.choice(TOKENS) for pair in pairs}
    return symmetric(size, pairs)


def in_use(rolled: random.Random, node: Node, most: float = 1) -> Node:
    """Let other pods take parts of some cards, now and then more than a card has.

    `most` is the share of cards that are in use at most.
    """
    busy = rolled.random() * most
    uses = (
        taken(rolled, each) if rolled.random() < busy else use
        for each, use in zip(node.cards, node.uses, strict=True)
    )
    return node.with_uses(tuple(uses))


def taken(rolled: random.Random, each: Card) -> Use:
    most = each.memory_units
    return rolled.choice(
        [
            each.whole,
            Use(cores=rolled.randint(0, 130), memory_units=rolled.randint(0, most + 6)),
            Use(cores=rolled.randint(1, 60), memory_units=rolled.randint(1, most // 2)),
        ]
    )


def ask(rolled: random.Random) -> tuple[int, int]:
    """Draw any allowed (cores, memory units)."""
    if rolled.random() < 0.6:
        return rolled.randint(1, 99), rolled.randint(1, rolled.choice([8, 26]))
    return rolled.choice([100, 100, 200, 300]), rolled.randint(0, 26)


def numbered(
    asked: Sequence[tuple[ContainerKind, tuple[int, int]]],
) -> tuple[ContainerRequest, ...]:
    """Containers with the positions that they have in their pod's two lists."""
    found: list[ContainerRequest] = []
    for kind, (cores, memory) in asked:
        app = kind is ContainerKind.APP
        index = sum((each.kind is ContainerKind.APP) is app for each in found)
        name = f"{kind.value}-{index}"
        found.append(
            ContainerRequest(name=name, kind=kind, index=index, cores=cores, memory_units=memory)
        )
    return tuple(found)


def partition(root: Branch, level: TreeLevel) -> tuple[tuple[int, ...], ...]:
    """The groups that the cards form at a level, lone cards among them, by lowest card."""
    if root.level <= level:
        return (root.cards,)
    return tuple(group for child in root.children for group in partition(child, level))
