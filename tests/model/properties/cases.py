"""A node of up to eight cards and a pod, drawn so that the answer is hard to find.

A quarter of the cases are drawn freely. The others begin with a solution: cards are given to
containers first, other pods fill up most of what is left, and now and then one container asks one
unit more. A greedy rule that takes the wrong card for the first container fails on these.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from gpustack.model.node import Card, Node
from gpustack.model.request import (
    ANY,
    ContainerKind,
    ContainerRequest,
    PodRequest,
    Selector,
    Strategy,
    Topology,
)
from gpustack.model.use import Use
from tests.model.machines import KINDS, ask, dice, in_use, machine, numbered, taken
from tests.model.properties import reference

MOST_CARDS = 8
MODEL_NAMES = ("P40", "a100", "Tesla", "nvidia-a100-sxm4-80gb", "T4", "A10")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A node, and a pod to place on it."""

    node: Node
    request: PodRequest


@st.composite
def cases(
    draw: st.DrawFn, most: int = MOST_CARDS, least_containers: int = 1, containers: int = 4
) -> Case:
    """A node of at most so many cards, and a pod of so many containers."""
    rolled, count = draw(dice), draw(st.integers(least_containers, containers))
    bare = machine(rolled, draw(st.integers(1, most)))
    if rolled.random() < 0.25:
        asked = numbered([(rolled.choice(KINDS), ask(rolled)) for _ in range(count)])
        busy = rolled.choice([0, 0.4, 1])
        node = in_use(rolled, bare, most=busy)
        return Case(node=node, request=pod_of(rolled, node, asked))
    return _snug(rolled, bare, count)


def machines(least: int = 1, most: int = MOST_CARDS) -> st.SearchStrategy[Node]:
    """Idle nodes of so many cards."""
    return st.builds(machine, dice, st.integers(least, most))


def pod_of(
    rolled: random.Random,
    node: Node,
    containers: tuple[ContainerRequest, ...],
    given: reference.Given | None = None,
    *,
    picky: float = 0.3,
) -> PodRequest:
    """Draw the conditions of a pod, mostly such that `given` meets them; `picky`: how often any."""
    uuids = [each.uuid for each in node.cards]
    for _ in range(rolled.choice([1, 4])):
        request = PodRequest(
            containers=containers,
            models=_selector(rolled, MODEL_NAMES, picky),
            uuids=_selector(rolled, uuids, picky),
            topology=rolled.choice(list(Topology))
            if rolled.random() < 2 * picky
            else Topology.BEST_EFFORT,
            node_strategy=rolled.choice(list(Strategy)),
            card_strategy=rolled.choice(list(Strategy)),
        )
        if all(reference.allowed(node, request, *each) for each in (given or {}).items()):
            break
    return request


def _selector(rolled: random.Random, names: Sequence[str], picky: float) -> Selector:
    if rolled.random() >= picky:
        return ANY
    include, exclude = (
        tuple(rolled.sample(names, rolled.randint(0, min(most, len(names))))) for most in (5, 2)
    )
    return Selector(include=include, exclude=exclude)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A container of a solution, and the cards it has there."""

    kind: ContainerKind
    ask: tuple[int, int]
    cards: frozenset[int]


def _snug(rolled: random.Random, node: Node, count: int) -> Case:
    """Give containers cards, and then let other pods take most of what is left of these cards."""
    kinds = [rolled.choice(KINDS) for _ in range(count)]
    parts: list[_Part] = []
    # Init containers use the others' cards; they fit with fewer of the others beside them, too.
    for kind in sorted(kinds, key=lambda kind: kind is ContainerKind.INIT):
        parts += _part(rolled, node, parts, kind)
    rolled.shuffle(parts)
    containers = numbered([(each.kind, each.ask) for each in parts])
    given = {one: tuple(sorted(each.cards)) for one, each in zip(containers, parts, strict=True)}
    uses = tuple(_others(rolled, each, given, at) for at, each in enumerate(node.cards))
    request = pod_of(rolled, node, containers, given)
    if rolled.random() < 0.3:
        request = replace(request, containers=_a_unit_more(rolled, containers))
    return Case(node=node.with_uses(uses), request=request)


def _part(
    rolled: random.Random, node: Node, parts: list[_Part], kind: ContainerKind
) -> list[_Part]:
    """Draw one more container of a solution; the list is empty where no card is left for it."""
    init = kind is ContainerKind.INIT
    beside = [each for each in parts if each.kind is ContainerKind.SIDECAR] if init else parts
    own = sorted({card for each in parts for card in each.cards})
    pool = own if init and own else range(len(node.cards))
    idle = [card for card in pool if not any(card in each.cards for each in beside)]
    if idle and rolled.random() < 0.5:
        some = rolled.sample(idle, rolled.randint(1, min(4, len(idle))))
        if init and own == idle and rolled.random() < 0.5:  # more cards than the others have
            others = [card for card in range(len(node.cards)) if card not in own]
            some = own + rolled.sample(others, rolled.randint(0, min(2, len(others))))
        whole = 100 * len(some), rolled.randint(0, 26)
        return [_Part(kind=kind, ask=whole, cards=frozenset(some))]
    for at in rolled.sample(pool, len(pool)):
        here = [each.ask for each in beside if at in each.cards]
        cores = 100 - sum(each[0] for each in here)
        units = node.cards[at].memory_units - sum(each[1] for each in here)
        if cores > 0 and units > 0 and all(each[0] < 100 for each in here):
            share = rolled.randint(1, min(99, cores)), rolled.randint(1, units)
            return [_Part(kind=kind, ask=share, cards=frozenset([at]))]
    return []


def _others(rolled: random.Random, each: Card, given: reference.Given, at: int) -> Use:
    """Draw what other pods take of a card: all that the solution leaves, or a part of it."""
    here = [[one for one in moment if at in moment[one]] for moment in reference.moments(given)]
    if any(one.cores >= 100 for moment in here for one in moment):
        return Use()
    cores = 100 - max(sum(one.cores for one in moment) for moment in here)
    units = each.memory_units - max(sum(one.memory_units for one in moment) for moment in here)
    if cores == 100 and rolled.random() < 0.5:
        return taken(rolled, each)
    part = Use(cores=rolled.randint(0, cores), memory_units=rolled.randint(0, units))
    return rolled.choice([Use(cores=cores, memory_units=units), part])


def _a_unit_more(
    rolled: random.Random, containers: tuple[ContainerRequest, ...]
) -> tuple[ContainerRequest, ...]:
    """Let one of the shares ask for one core or one unit of memory more."""
    shares = [each for each in containers if each.cores < 99]
    if not shares:
        return containers
    one = rolled.choice(shares)
    more = rolled.choice(
        [replace(one, cores=one.cores + 1), replace(one, memory_units=one.memory_units + 1)]
    )
    return tuple(more if each is one else each for each in containers)
