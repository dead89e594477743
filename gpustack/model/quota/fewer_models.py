"""Placements on fewer of a node's models than the first answer takes, for a quota by models."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gpustack.model.model_name import label_safe_model
from gpustack.model.node import Node
from gpustack.model.placement import Placement, Placer
from gpustack.model.request import ContainerKind, PodRequest
from gpustack.model.search.exclusion import avoiding
from gpustack.model.units import CORES_PER_CARD

# On a node with several models only so many sets of cards to avoid are tried, which takes some
# milliseconds, and the refusal stands where none of them helps. All sets of four models are 14.
_MOST_MIXTURES: Final = 64


def within_reach(node: Node, request: PodRequest, allowed: Mapping[str, int]) -> bool:
    """Say whether what is allowed of all models together may be enough for the pod."""
    models = _models(node)
    if len(set(models.values())) < 2:
        return False
    usable = _usable(node, request, models)
    parts = (min(allowed[name], CORES_PER_CARD * len(usable[name])) for name in usable)
    needed = sum(each.cores for each in request.containers if each.kind is not ContainerKind.INIT)
    return sum(max(0, part) for part in parts) >= needed


def _models(node: Node) -> Mapping[int, str]:
    """Return the label-safe model of each card, by its place in `node.cards`."""
    return {index: label_safe_model(card.model) for index, card in enumerate(node.cards)}


def others(
    node: Node, request: PodRequest, placer: Placer, allowed: Mapping[str, int] | None = None
) -> Iterator[Placement]:
    """Yield placements on fewer of a node's models, or on fewer cards of them, than the first may.

    Whole models are left out first, small sets of them before large ones. `allowed` says how many
    hundredths may be had of each label-safe model; then, for a pod of several cards, so many cards
    are left out that no more than these can be taken.
    """
    models = _models(node)
    sets = _of_models(models)
    if allowed is not None and sum(each.card_count for each in request.containers) > 1:
        sets = itertools.chain(sets, _beyond(request, _usable(node, request, models), allowed))
    for avoided in itertools.islice(sets, _MOST_MIXTURES):
        answer = placer(*avoiding(node, request, avoided))
        if isinstance(answer, Placement):
            yield answer


def _of_models(models: Mapping[int, str]) -> Iterator[frozenset[int]]:
    names = sorted(set(models.values()))
    for size in range(1, len(names)):
        for avoided in itertools.combinations(names, size):
            yield frozenset(index for index, name in models.items() if name in avoided)


def _usable(
    node: Node, request: PodRequest, models: Mapping[int, str]
) -> Mapping[str, Sequence[int]]:
    """Return the cards that could serve the pod, by model."""
    shares = _has_shares(request)
    found: dict[str, list[int]] = {}
    for index, card in enumerate(node.cards):
        if (
            card.healthy
            and request.accepts(card.model, card.uuid)
            and (shares or node.uses[index].idle)
        ):
            found.setdefault(models[index], []).append(index)
    return found


def _beyond(
    request: PodRequest, usable: Mapping[str, Sequence[int]], allowed: Mapping[str, int]
) -> Iterator[frozenset[int]]:
    """Yield the sets of cards whose loss leaves of each model no more than is allowed."""
    # A share may stand on the part of a card that is allowed beyond the whole ones.
    beside = CORES_PER_CARD - 1 if _has_shares(request) else 0
    spare = []
    for name, cards in sorted(usable.items()):
        kept = max(0, allowed[name] + beside) // CORES_PER_CARD
        lost = itertools.combinations(cards, max(0, len(cards) - kept))
        spare.append(itertools.islice(lost, _MOST_MIXTURES))
    for several in itertools.product(*spare):
        yield frozenset(itertools.chain.from_iterable(several))


def _has_shares(request: PodRequest) -> bool:
    return any(each.is_share for each in request.containers)
