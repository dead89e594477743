"""How long the model takes to place one pod on one idle node, and trying every set of cards."""

import functools
import itertools

from gpustack.model import cardset
from gpustack.model.device import Card, Node
from gpustack.model.placement import Placement, place
from gpustack.model.request import ContainerKind, ContainerRequest, PodRequest
from gpustack.model.topology import Level
from tests.benchmarks.timing import measure

CARD_BYTES = 80 << 30
TIMES = 200


def node(cards: int) -> Node:
    """Return a node of two sockets with two switches each, as PCIe servers are built."""

    def link(one: int, two: int) -> str:
        if one == two:
            return "X"
        if one * 4 // cards == two * 4 // cards:
            return "PIX"
        return "NODE" if one * 2 // cards == two * 2 // cards else "SYS"

    return Node(
        name="node",
        cards=tuple(
            Card(minor=minor, uuid=f"GPU-{minor}", model="A100", memory_bytes=CARD_BYTES)
            for minor in range(cards)
        ),
        links=tuple(tuple(link(one, two) for two in range(cards)) for one in range(cards)),
    )


def request(cores: int, memory_units: int) -> PodRequest:
    """Return a pod of one container."""
    container = ContainerRequest(
        name="main",
        kind=ContainerKind.APP,
        index=0,
        cores=cores,
        memory_units=memory_units,
    )
    return PodRequest(containers=(container,))


def section() -> str:
    """Measure and return the page's part."""
    rows = ["## place() on one idle node of a dual-socket PCIe tree, ms: median (p99)", ""]
    rows += ["Remembered: the same question again, as a cluster of equal nodes asks it. Fresh: the"]
    rows += ["memory of `cardset` is emptied before each. Brute force tries every set of cards by"]
    rows += ["the same objective; its answer was the same each time.", ""]
    rows += ["| pod | cards | remembered | fresh | brute force |", "|---|---|---|---|---|"]
    for what, cores, memory in (
        ("a share (50, 8 GiB)", 50, 32),
        ("1 card", 100, 0),
        ("2 cards", 200, 0),
        ("4 cards", 400, 0),
        ("8 cards", 800, 0),
    ):
        rows += [f"| {what} | {cards} | {_cells(cards, cores, memory)} |" for cards in (8, 16)]
    return "\n".join([*rows, ""])


def _cells(cards: int, cores: int, memory: int) -> str:
    ask = functools.partial(place, node(cards), request(cores, memory))
    answer = ask()
    if not isinstance(answer, Placement):
        raise AssertionError(f"{cores} cores do not fit {cards} idle cards")
    remembered = measure(ask, times=TIMES).text()
    if cores < 100:
        return f"{remembered} | - | -"

    def fresh() -> None:
        cardset.best.cache_clear()
        ask()

    trying = functools.partial(brute_force, node(cards), cores // 100)
    if trying() != answer.containers[0].minors:
        raise AssertionError(f"brute force finds other {cores // 100} of {cards} cards")
    cells = remembered, measure(fresh, times=TIMES).text(), measure(trying, times=3).text()
    return " | ".join(cells)


def brute_force(on: Node, count: int) -> tuple[int, ...]:
    """Return the best set of an idle node by the stated objective, looking at all of them."""
    every = range(len(on.cards))
    pairs = {(a, b): on.link(a, b) for a, b in itertools.combinations(every, 2)}

    def key(cards: tuple[int, ...]) -> tuple[object, ...]:
        chosen = [pairs[pair] for pair in itertools.combinations(cards, 2)]
        rest = [card for card in every if card not in cards]
        left = [pairs[pair].level for pair in itertools.combinations(rest, 2)]
        near = [-sum(level <= most for level in left) for most in list(Level)[1:]]
        worst = max((link.level for link in chosen), default=Level.SELF)
        return worst, sum(link.cost for link in chosen), near, cards

    return min(itertools.combinations(every, count), key=key)
