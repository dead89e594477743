"""Placements on fewer of a node's models than the first answer takes, for a quota by models.

A node names its models itself, and may name hundreds. A quota sees no difference between models
that the same of its names mean: they are one kind.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpustack.model.model_name import label_safe_model
from gpustack.model.node import Node
from gpustack.model.placement import Placement, Placer, holds
from gpustack.model.request import ContainerKind, ContainerRequest, PodRequest
from gpustack.model.search import bounds
from gpustack.model.search.demand import usable
from gpustack.model.search.exclusion import avoiding
from gpustack.model.units import CORES_PER_CARD

# Sets of cards to avoid that are tried, which takes some milliseconds; the refusal stands where
# none of them helps. All sets of four models are 14. On a node of more cards fewer are tried.
_MOST_MIXTURES: Final = 64
_CARDS_OF_A_MACHINE: Final = 16

Kind = tuple[str, ...]
"""The names of a quota that mean a card, or its label-safe model alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a namespace may still take of a node.

    Attributes:
        kinds: of each card, by its place in `node.cards`.
        parts: hundredths of a card that may be taken of each kind.
    """

    kinds: Mapping[int, Kind]
    parts: Mapping[Kind, int]


def rest_in_reach(node: Node, request: PodRequest, left: Left) -> Callable[[Placement], bool]:
    """Return what says of some containers' placement whether the rest may keep to what is left.

    Of the rest some must be able to take of each kind what the other kinds can't give, on cards
    that have so much free, and each init container a card of which the pod holds enough. It is
    asked by one search, which places the containers in one order.
    """
    sums: dict[int, tuple[int, int]] = {}  # by how many containers stand: of those that don't
    cards = usable(node, request)
    inits = [each for each in request.containers if each.kind is ContainerKind.INIT]

    def parts_of_rest(found: Placement) -> tuple[int, int]:
        there = {(each.kind, each.index) for each in found.containers}
        rest = [each for each in request.running if (each.kind, each.index) not in there]
        parts = [min(CORES_PER_CARD, each.cores) for each in rest for _ in range(each.card_count)]
        return sum(parts), bounds.sums(parts, sum(parts))

    def in_reach(found: Placement) -> bool:
        count = len(found.containers)
        total, exact = sums.get(count) or sums.setdefault(count, parts_of_rest(found))
        held = {index: use.cores for index, use in holds(node, found).items()}
        parts = dict(left.parts)
        for index, cores in held.items():
            parts[left.kinds[index]] -= cores
        free = dict.fromkeys(parts, 0)
        most: dict[int, int] = {}  # that the pod may hold of a card before its init containers
        for index in cards:
            now = held.get(index, 0)
            more = bounds.fill(exact, max(0, node.free_cores(index) - now))
            free[left.kinds[index]] += more
            most[index] = now + more
        if total + _beyond_running(node, inits, most) > sum(
            max(0, part) for part in parts.values()
        ):
            return False
        of_kind = [max(0, min(part, free[kind])) for kind, part in parts.items()]
        reach = sum(of_kind)
        return all(bounds.fill(exact, part) >= total - (reach - part) for part in of_kind)

    return in_reach


def _beyond_running(node: Node, inits: Sequence[ContainerRequest], most: Mapping[int, int]) -> int:
    """Return how many hundredths an init container takes at least beyond what the pod holds."""
    found = 0
    for each in inits:
        cores = min(CORES_PER_CARD, each.cores)
        missing = sorted(
            max(0, cores - held) for at, held in most.items() if node.free_cores(at) >= cores
        )
        found = max(found, sum(missing[: each.card_count]))
    return found


def others(
    node: Node,
    request: PodRequest,
    placer: Placer,
    left: Left | None = None,
    goes_on: Callable[[], bool] = lambda: True,
) -> Iterator[Placement]:
    """Yield placements on fewer of a node's models, or on fewer cards of them, than the first may.

    Whole models are left out first, small sets of them before large ones. With `left`, its kinds
    stand for the models, and every set has those of which no container may have a card. Last, for a
    pod of several cards, come sets that leave no more cards of a kind than may be taken; of one
    kind there are none. It ends where it no longer `goes_on`, which is asked before each search.
    """
    if left is None:
        models = {at: (label_safe_model(card.model),) for at, card in enumerate(node.cards)}
        sets = _of_kinds(models, frozenset())
    else:
        least = min(min(CORES_PER_CARD, each.cores) for each in request.containers)
        spent = frozenset(kind for kind, part in left.parts.items() if part < least)
        sets = _of_kinds(left.kinds, spent)
        several = sum(each.card_count for each in request.containers) > 1
        if several and len(set(left.kinds.values())) > 1:
            beyond = _beyond(request, _by_kind(node, request, left.kinds), left.parts)
            sets = itertools.chain(sets, beyond)
    most = _MOST_MIXTURES * _CARDS_OF_A_MACHINE // max(_CARDS_OF_A_MACHINE, len(node.cards))
    for avoided in itertools.takewhile(lambda _: goes_on(), itertools.islice(sets, most)):
        answer = placer(*avoiding(node, request, avoided))
        if isinstance(answer, Placement):
            yield answer


def _of_kinds(kinds: Mapping[int, Kind], spent: frozenset[Kind]) -> Iterator[frozenset[int]]:
    """Yield the cards of some kinds, and of all that are `spent`, but never every card."""
    rest = sorted(set(kinds.values()) - spent)
    for size in range(0 if spent else 1, len(rest)):
        for some in itertools.combinations(rest, size):
            avoided = spent.union(some)
            yield frozenset(index for index, kind in kinds.items() if kind in avoided)


def _by_kind(
    node: Node, request: PodRequest, kinds: Mapping[int, Kind]
) -> Mapping[Kind, Sequence[int]]:
    """Return the cards that could serve the pod, by kind."""
    shares = _has_shares(request)
    found: dict[Kind, list[int]] = {}
    for index in usable(node, request):
        if shares or node.uses[index].idle:
            found.setdefault(kinds[index], []).append(index)
    return found


def _beyond(
    request: PodRequest, by_kind: Mapping[Kind, Sequence[int]], parts: Mapping[Kind, int]
) -> Iterator[frozenset[int]]:
    """Yield the sets of cards whose loss leaves of each kind no more than is left."""
    # A share may stand on the part of a card that is allowed beyond the whole ones.
    beside = CORES_PER_CARD - 1 if _has_shares(request) else 0
    spare = []
    for kind, cards in sorted(by_kind.items()):
        kept = max(0, parts[kind] + beside) // CORES_PER_CARD
        lost = itertools.combinations(cards, max(0, len(cards) - kept))
        spare.append(itertools.islice(lost, _MOST_MIXTURES))
    for several in itertools.product(*spare):
        yield frozenset(itertools.chain.from_iterable(several))


def _has_shares(request: PodRequest) -> bool:
    return any(each.is_share for each in request.containers)
