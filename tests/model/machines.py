"""Machines and requests for the tests, drawn at random or built by hand."""

from collections.abc import Sequence

from hypothesis import strategies as st

from gpustack.model.device import Card, Node, Use
from gpustack.model.request import (
    ContainerKind,
    ContainerRequest,
    PodRequest,
    Strategy,
    Topology,
)
from gpustack.model.topology import Links
from gpustack.model.units import MEMORY_UNIT_BYTES

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


@st.composite
def link_matrices(draw: st.DrawFn, size: int, tokens: Sequence[str] = TOKENS) -> Links:
    """Any symmetric matrix: real ones are hierarchical, broken hosts are not."""
    rows = [["X"] * size for _ in range(size)]
    for a in range(size):
        for b in range(a):
            rows[a][b] = rows[b][a] = draw(st.sampled_from(tokens))
    return tuple(tuple(row) for row in rows)


@st.composite
def nodes(draw: st.DrawFn, most: int = 4, *, used: bool = True) -> Node:
    """Nodes of cards that differ in memory, model, NUMA node and health, in use and over-used."""
    size = draw(st.integers(1, most))
    minors = sorted(draw(st.sets(st.integers(0, 12), min_size=size, max_size=size)))
    cards = tuple(
        card(
            minor,
            draw(st.sampled_from([8, 16, 24])),
            model=draw(st.sampled_from(["Tesla P40", "NVIDIA A100-SXM4-80GB"])),
            numa=draw(st.sampled_from([None, 0, 1])),
            healthy=draw(st.sampled_from([True, True, True, False])),
        )
        for minor in minors
    )
    links = draw(st.one_of(st.just(()), link_matrices(size)))
    uses = tuple(draw(uses_of(each)) if used else Use() for each in cards)
    return Node(
        name=draw(st.sampled_from(["n1", "n10", "n2"])), cards=cards, links=links, uses=uses
    )


def uses_of(each: Card) -> st.SearchStrategy[Use]:
    """Idle as often as not; sometimes more than the card has."""
    some = st.builds(Use, cores=st.integers(0, 130), memory_units=st.integers(0, 30))
    return st.one_of(st.just(Use()), st.just(Use()), st.just(each.whole), some)


def asks() -> st.SearchStrategy[tuple[int, int]]:
    """Any allowed (cores, memory units)."""
    share = st.tuples(st.integers(1, 99), st.integers(1, 26))
    whole = st.tuples(st.sampled_from([100, 100, 200, 300]), st.integers(0, 26))
    return st.one_of(share, whole)


@st.composite
def pods(draw: st.DrawFn, most: int = 3) -> PodRequest:
    """Pods of containers, sidecars and init containers in any mixture."""
    containers = tuple(
        ContainerRequest(name=f"c{index}", kind=kind, index=index, cores=cores, memory_units=memory)
        for index, (kind, (cores, memory)) in enumerate(
            draw(
                st.lists(
                    st.tuples(st.sampled_from(ContainerKind), asks()), min_size=1, max_size=most
                )
            )
        )
    )
    return PodRequest(
        containers=containers,
        topology=draw(st.sampled_from(Topology)),
        node_strategy=draw(st.sampled_from(Strategy)),
        card_strategy=draw(st.sampled_from(Strategy)),
    )
