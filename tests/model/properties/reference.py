"""The rules in their plainest form; tests compare the model with it.

This module is slow and uses no arithmetic of the model: `complaint` judges one answer,
`fits_somehow` tries everything, `objective` says how good a set of whole cards is.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping

from gpustack.model.node import Card, Node
from gpustack.model.placement import ContainerPlacement, Placement
from gpustack.model.request import ContainerKind, ContainerRequest, PodRequest, Selector, Topology

UNIT = 268_435_456  # bytes
CARD = 100  # cores

# Nearest first, with the costs of a pair; a pair that isn't published is the farthest.
PATHS = ("PIX", "PXB", "PHB", "NODE", "SYS")
COSTS = {"PIX": 20, "PXB": 30, "PHB": 40, "NODE": 50, "SYS": 60}

Cards = tuple[int, ...]
"""Positions in `node.cards`."""

Given = Mapping[ContainerRequest, Cards]


def complaint(node: Node, request: PodRequest, answer: Placement) -> str:
    """Return the first rule that an answer breaks, or nothing."""
    asked = [(c.name, c.kind, c.index, c.cores, c.memory_units) for c in request.containers]
    told = [(c.name, c.kind, c.index, c.cores, c.memory_units) for c in answer.containers]
    if answer.node != node.name or asked != told:
        return "it answers another question"
    given: dict[ContainerRequest, Cards] = {}
    for container, placed in zip(request.containers, answer.containers, strict=True):
        wrong = _wrong_names(node, container, placed)
        if wrong:
            return f"{container.name}: {wrong}"
        given[container] = positions(node, placed)
        if not allowed(node, request, container, given[container]):
            return f"{container.name} may not have cards {placed.minors}"
    for moment in moments(given):
        if not within_capacity(node, moment):
            return f"{[each.name for each in moment]} do not fit beside each other"
    if len(_all_cards(given)) != _cards_due(given):
        return f"it takes {len(_all_cards(given))} cards where {_cards_due(given)} are due"
    return ""


def _wrong_names(node: Node, asked: ContainerRequest, placed: ContainerPlacement) -> str:
    by_minor = {card.minor: card for card in node.cards}
    if len(placed.minors) != count(asked) or list(placed.minors) != sorted(set(placed.minors)):
        return f"{placed.minors} are not {count(asked)} ascending minors"
    if not set(placed.minors) <= set(by_minor):
        return f"{placed.minors} are not all there"
    if placed.uuids != tuple(by_minor[minor].uuid for minor in placed.minors):
        return f"{placed.uuids} are not the UUIDs of {placed.minors}"
    return ""


def positions(node: Node, placed: ContainerPlacement) -> Cards:
    return tuple(at for at, card in enumerate(node.cards) if card.minor in placed.minors)


def placed(node: Node, asked: ContainerRequest, cards: Iterable[int]) -> ContainerPlacement:
    """A decision that gives a container these cards."""
    chosen = [node.cards[at] for at in cards]
    return ContainerPlacement(
        name=asked.name,
        kind=asked.kind,
        index=asked.index,
        minors=tuple(card.minor for card in chosen),
        uuids=tuple(card.uuid for card in chosen),
        cores=asked.cores,
        memory_units=asked.memory_units,
    )


def held(node: Node, request: PodRequest, answer: Placement) -> dict[int, tuple[int, int]]:
    """Cores and memory units that a pod needs of each of its cards at its busiest moment."""
    given = {
        each: positions(node, its)
        for each, its in zip(request.containers, answer.containers, strict=True)
    }
    most: dict[int, tuple[int, int]] = {}
    for moment in moments(given):
        for at in _all_cards(moment):
            whole = CARD, node.cards[at].memory_bytes // UNIT
            parts = [
                whole if each.cores >= CARD else (each.cores, each.memory_units)
                for each, cards in moment.items()
                if at in cards
            ]
            now, before = [sum(part) for part in zip(*parts, strict=True)], most.get(at, (0, 0))
            most[at] = max(now[0], before[0]), max(now[1], before[1])
    return most


def cards_of(node: Node, answer: Placement) -> set[int]:
    """The positions of all cards that a pod gets."""
    return {at for placed in answer.containers for at in positions(node, placed)}


def count(container: ContainerRequest) -> int:
    """Return how many cards a container is due."""
    return max(1, container.cores // CARD)


def fits_somehow(node: Node, request: PodRequest) -> bool:
    """Say whether any assignment of cards to containers obeys all rules."""
    running = [each for each in request.containers if each.kind is not ContainerKind.INIT]
    init = [each for each in request.containers if each.kind is ContainerKind.INIT]
    sets = {each: list(sets_alone(node, request, each)) for each in request.containers}
    if not all(sets.values()):
        return False
    tried: set[object] = set()
    for given in _assignments(node, running, sets, {}):
        sidecars = tuple(given[each] for each in running if each.kind is ContainerKind.SIDECAR)
        alike = frozenset(_all_cards(given)), sidecars
        if alike in tried:
            continue
        tried.add(alike)
        if _with_init(node, given, init, sets):
            return True
    return False


def sets_alone(node: Node, request: PodRequest, container: ContainerRequest) -> Iterator[Cards]:
    """Every set of cards that the container could have if it were the pod's only one."""
    for cards in itertools.combinations(range(len(node.cards)), count(container)):
        if allowed(node, request, container, cards) and within_capacity(node, {container: cards}):
            yield cards


def _assignments(
    node: Node,
    left: list[ContainerRequest],
    sets: Mapping[ContainerRequest, list[Cards]],
    given: Given,
) -> Iterator[Given]:
    """Every way in which containers run together."""
    if not left:
        yield given
        return
    for cards in sets[left[0]]:
        more = {**given, left[0]: cards}
        if within_capacity(node, more):
            yield from _assignments(node, left[1:], sets, more)


def _with_init(
    node: Node,
    given: Given,
    init: list[ContainerRequest],
    sets: Mapping[ContainerRequest, list[Cards]],
) -> bool:
    """Say whether the init containers can do with as few cards as the pod is due."""
    own = _all_cards(given)
    more = max(0, max(map(count, init), default=0) - len(own))
    others = [at for at in range(len(node.cards)) if at not in own]
    return any(
        all(
            any(
                set(cards) <= own | set(extra)
                and within_capacity(node, {**_beside(given, step), step: cards})
                for cards in sets[step]
            )
            for step in init
        )
        for extra in itertools.combinations(others, more)
    )


def moments(given: Given) -> Iterator[Given]:
    """Yield what runs at one time: the pod's containers; each init container with its sidecars."""
    yield {each: at for each, at in given.items() if each.kind is not ContainerKind.INIT}
    for each, at in given.items():
        if each.kind is ContainerKind.INIT:
            yield {**_beside(given, each), each: at}


def _beside(given: Given, step: ContainerRequest) -> Given:
    """The restartable init containers that were started before an ordinary one."""
    return {
        each: at
        for each, at in given.items()
        if each.kind is ContainerKind.SIDECAR and each.index < step.index
    }


def _all_cards(given: Given) -> set[int]:
    return {card for cards in given.values() for card in cards}


def _cards_due(given: Given) -> int:
    """Return how many cards the running containers have, or the largest init container, if more."""
    running = {each: at for each, at in given.items() if each.kind is not ContainerKind.INIT}
    init = (count(each) for each in given if each.kind is ContainerKind.INIT)
    return max(len(_all_cards(running)), *init, 0)


def allowed(node: Node, request: PodRequest, container: ContainerRequest, cards: Cards) -> bool:
    """Say whether these cards are healthy, acceptable and joined as demanded."""
    if not all(node.cards[at].healthy and accepts(request, node.cards[at]) for at in cards):
        return False
    pairs = itertools.combinations(cards, 2)
    return all(_joined(node, request.topology, a, b) for a, b in pairs)


def accepts(request: PodRequest, card: Card) -> bool:
    """Say whether the pod's lists of models and UUIDs allow a card."""
    return _passes(request.models, model_names(card)) and _passes(
        request.uuids, {card.uuid.lower()}
    )


def model_names(card: Card) -> set[str]:
    """All names of a card's model, in small letters."""
    name = re.sub("[^A-Za-z0-9._-]+", "-", card.model).strip("-_.").lower()
    return {name, *name.split("-")}


def _passes(selector: Selector, names: set[str]) -> bool:
    include = {each.lower() for each in selector.include}
    exclude = {each.lower() for each in selector.exclude}
    return not names & exclude and (not include or bool(names & include))


def _joined(node: Node, demand: Topology, a: int, b: int) -> bool:
    token = path(node, a, b)
    if demand is Topology.NVLINK:
        return token.startswith("NV")
    if demand is Topology.SINGLE_SWITCH:
        return token.startswith("NV") or token in {"PIX", "PXB"}
    if demand is Topology.SINGLE_NUMA:
        one, two = node.cards[a].numa, node.cards[b].numa
        known = one is not None and two is not None
        return one == two if known else token in {"PIX", "PXB", "PHB", "NODE"}
    return True


def path(node: Node, a: int, b: int) -> str:
    """The token of a pair."""
    return node.links[a][b] if node.links else "SYS"


def within_capacity(node: Node, given: Given) -> bool:
    """Say whether containers that run together fit, whole cards alone on theirs."""
    for index, card in enumerate(node.cards):
        here = [each for each, indexes in given.items() if index in indexes]
        whole = [each for each in here if each.cores >= CARD]
        use = node.uses[index]
        if whole and (len(here) > 1 or use.cores or use.memory_units):
            return False
        shares = [each for each in here if each.cores < CARD]
        cores = use.cores + sum(each.cores for each in shares)
        memory = use.memory_units + sum(each.memory_units for each in shares)
        if shares and (cores > CARD or memory * UNIT > card.memory_bytes):
            return False
    return True


def objective(node: Node, cards: Iterable[int], *, spread: bool) -> tuple[object, ...]:
    """Return the value of a set of whole cards by the four steps in order; smaller is better."""
    chosen = tuple(sorted(cards))
    free = [
        at
        for at, (card, use) in enumerate(zip(node.cards, node.uses, strict=True))
        if card.healthy and not use.cores and not use.memory_units and at not in chosen
    ]
    taken = [path(node, a, b) for a, b in itertools.combinations(chosen, 2)]
    left = [_nearness(path(node, a, b)) for a, b in itertools.combinations(free, 2)]
    near = [sum(one <= most for one in left) for most in range(len(PATHS) + 1)]
    return (
        max(map(_nearness, taken), default=-1),
        sum(-(-18 // int(t[2:])) if t.startswith("NV") else COSTS[t] for t in taken),
        near if spread else [-pairs for pairs in near],
        chosen,
    )


def _nearness(token: str) -> int:
    return 0 if token.startswith("NV") else 1 + PATHS.index(token)
