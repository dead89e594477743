"""How many cards of which model a namespace may hold, and in which pools of nodes.

The rules are the original gpu-admission's (its quota filter of 2020), which a namespace that is
not listed escapes altogether: it is unlimited. In a listed one a model or a pool that is not
listed is refused, and an empty list of pools means every pool.

Amounts are hundredths of a card, and what counts is what placements hold (`usage`). (The original
added up the limits of bound pods by their node's label, so a burst of pods could pass together.)
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from gpustack.model.frozen import freeze
from gpustack.model.node import Node, label_safe_model, model_matches
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.policies import Policy
from gpustack.model.quota import refusal_text
from gpustack.model.quota.usage import Usage, amounts, matching
from gpustack.model.refusal import Reason, Refusal
from gpustack.model.request import ContainerKind, PodRequest
from gpustack.model.search.exclusion import avoiding
from gpustack.model.units import CORES_PER_CARD

# On a node with several models only so many sets of cards to avoid are tried, which takes some
# milliseconds, and the refusal stands where none of them helps. All sets of four models are 14.
_MOST_MIXTURES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceQuota:
    """What a listed namespace may hold.

    Attributes:
        cards: hundredths of a card by model name (`device.model_matches`); a card that two names
            match counts for both.
        pools: the pools it may use; empty: all.
    """

    cards: Mapping[str, int] = field(default_factory=dict)
    pools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Keep a copy that nobody can change."""
        freeze(self, "cards")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The quota of every listed namespace."""

    namespaces: Mapping[str, NamespaceQuota] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep a copy that nobody can change."""
        freeze(self, "namespaces")

    def of(self, namespace: str) -> NamespaceQuota | None:
        """Return what a namespace may hold; None where it isn't limited."""
        return self.namespaces.get(namespace)


NO_QUOTA: Final = Quota()


def check(
    quota: Quota,
    usage: Usage,
    namespace: str,
    node: Node,
    placement: Placement,
    *,
    without: Collection[str] = (),
) -> Refusal | None:
    """Return why the namespace may not hold `placement` as well; None when it may.

    `without` names pods (UIDs) that don't count: the pod itself, where it is counted already, or
    pods that are about to end.
    """
    found = _problem(quota, usage, namespace, node, placement, without=without)
    return None if found is None else found[1]()


def forbids(
    quota: Quota,
    usage: Usage,
    namespace: str,
    node: Node,
    placement: Placement,
    *,
    without: Collection[str] = (),
) -> Reason | None:
    """Return the reason of `check` alone, which costs no look at the namespace's pods."""
    found = _problem(quota, usage, namespace, node, placement, without=without)
    return None if found is None else found[0]


def _problem(
    quota: Quota,
    usage: Usage,
    namespace: str,
    node: Node,
    placement: Placement,
    *,
    without: Collection[str],
) -> tuple[Reason, Callable[[], Refusal]] | None:
    limit = quota.of(namespace)
    if limit is None:
        return None
    if limit.pools and node.pool not in limit.pools:
        return Reason.POOL_FORBIDDEN, partial(refusal_text.pool, namespace, limit.pools, node)
    asked = amounts(node, placement)
    for model in sorted(asked):
        if not any(model_matches(name, model) for name in limit.cards):
            words = partial(refusal_text.model, namespace, limit.cards, node, model)
            return Reason.MODEL_FORBIDDEN, words
    for name in sorted(limit.cards):
        more = matching(asked, name)
        used = usage.used(namespace, name, without=without)
        if more and used + more > limit.cards[name]:
            amount = used, limit.cards[name], more
            words = partial(refusal_text.amount, usage, namespace, name, amount, without)
            return Reason.QUOTA_EXCEEDED, words
    return None


Placer = Callable[[Node, PodRequest], Placement | Refusal]
"""Answers like `placement.place`."""


def within(
    quota: Quota,
    usage: Usage,
    namespace: str,
    policy: Policy,
    *,
    without: Collection[str] = (),
) -> Placer:
    """Return a placer that keeps to the quota.

    On a node with several models, where the first answer breaks it, `others` are tried: the pod
    may fit on cards of which there is quota left. Of several containers each may have to go to
    another model; those placements are searched one by one, until the search's effort is spent.
    """

    def answer(node: Node, request: PodRequest) -> Placement | Refusal:
        first = place(node, request, policy)
        refusal = problem(node, first) if isinstance(first, Placement) else None
        if refusal is None or refusal.reason is Reason.POOL_FORBIDDEN:
            return refusal or first
        allowed = _allowed(quota, usage, namespace, node, without)
        if _within_reach(node, request, allowed):
            for other in others(node, request, partial(place, policy=policy), allowed):
                if problem(node, other) is None:
                    return other
            if len(request.containers) > 1:
                mixed = place(node, request, policy, accepts=lambda it: problem(node, it) is None)
                return mixed if isinstance(mixed, Placement) else refusal
        return refusal

    def problem(node: Node, found: Placement) -> Refusal | None:
        return check(quota, usage, namespace, node, found, without=without)

    return answer


def _within_reach(node: Node, request: PodRequest, allowed: Mapping[str, int]) -> bool:
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
        if card.healthy and request.accepts(card) and (shares or node.uses[index].idle):
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


def _allowed(
    quota: Quota, usage: Usage, namespace: str, node: Node, without: Collection[str]
) -> Mapping[str, int]:
    """Return how many hundredths of each of the node's models the namespace may still take."""
    limit = quota.of(namespace) or NamespaceQuota()
    left = {
        name: most - usage.used(namespace, name, without=without)
        for name, most in limit.cards.items()
    }
    found = {}
    for model in {label_safe_model(card.model) for card in node.cards}:
        parts = [part for name, part in left.items() if model_matches(name, model)]
        found[model] = min(parts, default=0)
    return found


def raised(quota: Quota, usage: Usage, namespace: str, node: Node, placement: Placement) -> Quota:
    """Return the least generous quota that allows `placement` beside what is used already.

    A node without a pool, or a card without a model, is beyond any quota that names them.
    """
    limit = quota.of(namespace)
    if limit is None:
        return quota
    cards, pools = dict(limit.cards), limit.pools
    asked = amounts(node, placement)
    for model in sorted(asked):
        if not any(model_matches(name, model) for name in cards):
            cards[model] = 0
    for name, now in cards.items():
        if more := matching(asked, name):
            cards[name] = max(now, usage.used(namespace, name) + more)
    if pools and node.pool and node.pool not in pools:
        pools = (*pools, node.pool)
    allowed = NamespaceQuota(cards=cards, pools=pools)
    return Quota(namespaces={**quota.namespaces, namespace: allowed})
