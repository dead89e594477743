"""How long the model takes to place one pod on one node, and what the hardest questions cost."""

import functools
import itertools
import pathlib
import random
import statistics
import time
from collections.abc import Iterator, Sequence

from gpustack.model.node import Card, Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.search import card_set_search
from gpustack.model.topology.link_level import Level, Links
from gpustack.wire.topo import parser
from tests.benchmarks.timing import measure
from tests.model.machines import pod

CARD_BYTES = 80 << 30
UNIT_BYTES = 256 << 20
TIMES = 200
SEED = 4
MATRICES = 1000
PODS = 300
TOPO = pathlib.Path(__file__).resolve().parents[1] / "data" / "topo"
# Tokens of a random matrix's pairs: all kinds, paths only, NVLinks only, two kinds.
KINDS = (
    ("NV1", "NV2", "NV4", "NV12", "PIX", "PXB", "PHB", "NODE", "SYS"),
    ("PIX", "PXB", "PHB", "NODE", "SYS"),
    ("NV1", "NV2", "NV3", "NV6", "NV18"),
    ("PIX", "SYS"),
)


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


def section() -> str:
    """Measure and return the page's part."""
    rows = ["## place() on one idle node of a dual-socket PCIe tree, ms: median (p99)", ""]
    rows += ["Remembered: the same question again, as a cluster of equal nodes asks it. Fresh: the"]
    rows += ["memory of `card_set_search` is emptied before each. Brute force tries every set by"]
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
    return "\n".join([*rows, "", *machines(), *random_matrices(), *hard_pods()])


def machines() -> Iterator[str]:
    """Ask for every number of cards of every machine that the tests know, and of larger ones."""
    yield "## The best cards of real machines, for every number of cards, ms"
    yield ""
    yield "All cards free, and three times a random half of them. Nothing is remembered."
    yield ""
    yield "| machine | cards | median | worst |"
    yield "|---|---|---|---|"
    known = {path.stem: parser.parse(path.read_bytes()).links for path in TOPO.glob("*.txt")}
    mesh = known["dgx-1"]
    known["pcie-16"] = node(16).links
    known["pcie-16, 2-4-8"] = _tree(16, {2: "PIX", 4: "PXB", 8: "NODE"})
    known["pcie-32, 2-4-8-16"] = _tree(32, {2: "PIX", 4: "PXB", 8: "PHB", 16: "NODE"})
    known["two cube meshes"] = tuple(
        tuple(mesh[a % 8][b % 8] if a // 8 == b // 8 else "SYS" for b in range(16))
        for a in range(16)
    )
    draw = random.Random(SEED)  # noqa: S311  # a measurement, no secret
    for name, links in sorted(known.items(), key=lambda entry: (len(entry[1]), entry[0])):
        size = len(links)
        frees = [(1 << size) - 1, *(draw.getrandbits(size) for _ in range(3))]
        counts = range(1, size + 1)
        seconds = [_search(links, free, count) for free in frees for count in counts]
        yield f"| {name} | {size} | {_middle_and_worst(seconds)} |"
    yield ""


def random_matrices() -> Iterator[str]:
    """Ask for a random number of cards of matrices without any order."""
    draw = random.Random(SEED)  # noqa: S311  # a measurement, no secret
    seconds = []
    for number in range(MATRICES):
        tokens = KINDS[number % len(KINDS)]
        rows = [["X"] * 16 for _ in range(16)]
        for a, b in itertools.combinations(range(16), 2):
            rows[a][b] = rows[b][a] = draw.choice(tokens)
        links = tuple(tuple(row) for row in rows)
        seconds.append(_search(links, (1 << 16) - 1, draw.randint(2, 15)))
    yield f"## The best cards of {MATRICES} random matrices of 16 cards, ms"
    yield ""
    yield "| median | worst |"
    yield "|---|---|"
    yield f"| {_middle_and_worst(seconds)} |"
    yield ""


def hard_pods() -> Iterator[str]:
    """Place pods of many containers that fill 16 cards of mixed sizes to the last core and unit."""
    draw = random.Random(SEED)  # noqa: S311  # a measurement, no secret
    seconds, placed, proven = [], 0, 0
    for _ in range(PODS):
        sizes = [draw.choice((64, 96, 160, 320)) for _ in range(16)]
        on = Node(
            name="node",
            cards=tuple(
                Card(minor=at, uuid=f"GPU-{at}", model="A100", memory_bytes=size * UNIT_BYTES)
                for at, size in enumerate(sizes)
            ),
        )
        asks = [ask for size in sizes for ask in _parts(draw, size, draw.randint(1, 4))]
        card_set_search.ANSWERS.clear()
        started = time.perf_counter()
        answer = place(on, pod(*asks))
        seconds.append(time.perf_counter() - started)
        placed += isinstance(answer, Placement)
        proven += not isinstance(answer, Placement) and "not proven" not in answer.detail
    yield f"## {PODS} pods of 16 to 64 containers that fill 16 mixed cards exactly, ms"
    yield ""
    yield "Bin packing without any slack, where the bound on the work is what ends the search."
    yield ""
    yield "| median | worst | placed | refused, not proven | refused wrongly as proven |"
    yield "|---|---|---|---|---|"
    yield f"| {_middle_and_worst(seconds)} | {placed} | {PODS - placed - proven} | {proven} |"
    yield ""


def _parts(draw: random.Random, units: int, parts: int) -> list[tuple[int, int]]:
    """Cut one card into so many shares."""
    if parts == 1:
        return [(100, 0)]
    cores = [0, *sorted(draw.sample(range(1, 100), parts - 1)), 100]
    memory = [0, *sorted(draw.sample(range(1, units), parts - 1)), units]
    cuts = zip(itertools.pairwise(cores), itertools.pairwise(memory), strict=True)
    return [(high - low, up - down) for (low, high), (down, up) in cuts]


def _tree(cards: int, spans: dict[int, str]) -> Links:
    """Return links of groups within groups: so many neighbours are joined by that token."""

    def link(one: int, two: int) -> str:
        near = (token for span, token in spans.items() if one // span == two // span)
        return "X" if one == two else next(near, "SYS")

    return tuple(tuple(link(a, b) for b in range(cards)) for a in range(cards))


def _search(links: Links, free: int, count: int) -> float:
    """Return the seconds of one search that remembers nothing."""
    everything = (1 << len(links)) - 1
    question = card_set_search.CardSetQuery(
        links=links, free=free, candidates=free, count=count, joins=(everything,) * len(links)
    )
    card_set_search.ANSWERS.clear()
    started = time.perf_counter()
    answer = card_set_search.best(question)
    seconds = time.perf_counter() - started
    if answer.gap is not None:
        raise AssertionError(f"{count} of {len(links)} cards: not proven, {answer.gap}")
    return seconds


def _middle_and_worst(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds) * 1e3:.2f} | {max(seconds) * 1e3:.2f}"


def _cells(cards: int, cores: int, memory: int) -> str:
    ask = functools.partial(place, node(cards), pod((cores, memory)))
    answer = ask()
    if not isinstance(answer, Placement):
        raise AssertionError(f"{cores} cores do not fit {cards} idle cards")
    remembered = measure(ask, times=TIMES).text()
    if cores < 100:
        return f"{remembered} | - | -"

    def fresh() -> None:
        card_set_search.ANSWERS.clear()
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
