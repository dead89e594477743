"""How long the model takes to place one pod on one idle node."""

import functools

from gpustack.model.device import Card, Node
from gpustack.model.placement import Placement, place
from gpustack.model.request import ContainerKind, ContainerRequest, PodRequest
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
    rows += ["The same question is asked again each time, as a cluster of equal nodes asks it.", ""]
    rows += ["| pod | 8 cards | 16 cards |", "|---|---|---|"]
    for what, cores, memory in (
        ("a share (50, 8 GiB)", 50, 32),
        ("1 card", 100, 0),
        ("2 cards", 200, 0),
        ("4 cards", 400, 0),
        ("8 cards", 800, 0),
    ):
        cells = []
        for cards in (8, 16):
            ask = functools.partial(place, node(cards), request(cores, memory))
            if not isinstance(ask(), Placement):
                raise AssertionError(f"{what} does not fit {cards} idle cards")
            cells.append(measure(ask, times=TIMES).text())
        rows.append(f"| {what} | {cells[0]} | {cells[1]} |")
    return "\n".join([*rows, ""])
