"""How many cards of which model a namespace may hold, and in which pools of nodes.

The rules are the original gpu-admission's (its quota filter of 2020), which a namespace that is
not listed escapes altogether: it is unlimited. In a listed one a model or a pool that is not
listed is refused, and an empty list of pools means every pool.

Amounts are hundredths of a card, and what counts is what placements hold: a pod counts from the
moment it is reserved, on the model of the very cards it got, and an ordinary init container adds
only what it holds beyond the pod's containers. (The original added up the limits of bound pods by
their node's label, so a burst of pods could pass together.)
"""

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from gpustack.model.device import Node, label_safe_model, model_matches
from gpustack.model.explanation import Reason, Refusal
from gpustack.model.holding import Placement, holds
from gpustack.model.request import PodRequest
from gpustack.model.units import CORES_PER_CARD

_LARGEST_NAMED: Final = 3  # a refusal names so many of the pods that use the quota

# Nodes with more than four models of cards aren't built; of such a one only so many sets of models
# to avoid are tried, and the refusal stands where none of them helps.
_MOST_MIXTURES: Final = 16


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The quota of every listed namespace."""

    namespaces: Mapping[str, NamespaceQuota] = field(default_factory=dict)

    def of(self, namespace: str) -> NamespaceQuota | None:
        """Return what a namespace may hold; None where it isn't limited."""
        return self.namespaces.get(namespace)


NO_QUOTA: Final = Quota()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """What one pod holds: hundredths of a card by label-safe model."""

    name: str
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Namespace:
    """One namespace's pods by UID, their sum, and who is largest, by model name, when asked for."""

    totals: Counter[str]
    pods: dict[str, _Held]
    largest: dict[str, list[tuple[str, str, int]]]


class Usage:
    """What every namespace holds, kept up to date pod by pod.

    The model's one value that changes: a cluster has ten thousand pods, and a decision must not
    cost more than the change since the last one. `put` and `drop` cost the pod, `used` the models
    of one namespace. Who changes a node's cards puts its pods again.
    """

    def __init__(self) -> None:
        self._namespaces: dict[str, _Namespace] = {}
        self._where: dict[str, str] = {}

    def put(self, uid: str, namespace: str, name: str, node: Node, placement: Placement) -> None:
        """Count what a pod holds on its node, in place of what it held before."""
        self.drop(uid)
        held = _Held(name=name, amounts=amounts(node, placement))
        found = self._namespaces.setdefault(namespace, _Namespace(Counter(), {}, {}))
        found.totals.update(held.amounts)
        found.pods[uid] = held
        found.largest.clear()
        self._where[uid] = namespace

    def drop(self, uid: str) -> None:
        """Forget a pod; one that isn't counted is passed over."""
        namespace = self._where.pop(uid, None)
        if namespace is None:
            return
        found = self._namespaces[namespace]
        found.totals.subtract(found.pods.pop(uid).amounts)
        found.largest.clear()
        if not found.pods:
            del self._namespaces[namespace]

    def used(self, namespace: str, pattern: str, *, without: Collection[str] = ()) -> int:
        """Return the hundredths held of the models that `pattern` means.

        `without` names pods (UIDs) that are not to be counted.
        """
        found = self._namespaces.get(namespace)
        if found is None:
            return 0
        left_out = (found.pods[uid].amounts for uid in set(without) if uid in found.pods)
        return _matching(found.totals, pattern) - sum(_matching(each, pattern) for each in left_out)

    def holders(
        self, namespace: str, pattern: str, *, without: Collection[str] = ()
    ) -> Sequence[tuple[str, str, int]]:
        """Return (UID, name, hundredths) of the pods that hold such models, the largest first."""
        found = self._namespaces.get(namespace)
        if found is None:
            return []
        if pattern not in found.largest:
            parts = (
                (uid, held.name, _matching(held.amounts, pattern))
                for uid, held in found.pods.items()
            )
            holding = (each for each in parts if each[2] > 0)
            found.largest[pattern] = sorted(holding, key=lambda each: (-each[2], each[1]))
        ranked = found.largest[pattern]
        return [each for each in ranked if each[0] not in without] if without else ranked


def amounts(node: Node, placement: Placement) -> Mapping[str, int]:
    """Return what a placement holds: hundredths of a card by label-safe model."""
    found: Counter[str] = Counter()
    for index, use in holds(node, placement).items():
        found[label_safe_model(node.cards[index].model)] += use.cores
    return MappingProxyType(dict(found))


def cards_text(hundredths: int) -> str:
    """Return hundredths as people write cards: `4`, `2.5`, `0.25`."""
    whole, part = divmod(hundredths, CORES_PER_CARD)
    return f"{whole}.{part:02d}".rstrip("0") if part else str(whole)


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
    limit = quota.of(namespace)
    if limit is None:
        return None
    if limit.pools and node.pool not in limit.pools:
        return _wrong_pool(namespace, limit, node)
    asked = amounts(node, placement)
    for model in sorted(asked):
        if not any(model_matches(name, model) for name in limit.cards):
            return _wrong_model(namespace, limit, node, model)
    for name in sorted(limit.cards):
        more = _matching(asked, name)
        used = usage.used(namespace, name, without=without)
        if more and used + more > limit.cards[name]:
            holders = usage.holders(namespace, name, without=without)
            amount = used, limit.cards[name], more
            return _too_much(namespace, name, amount, holders)
    return None


Placer = Callable[[Node, PodRequest], Placement | Refusal]
"""Answers like `placement.place`."""


def within(
    quota: Quota,
    usage: Usage,
    namespace: str,
    placer: Placer,
    *,
    without: Collection[str] = (),
) -> Placer:
    """Return a placer that keeps to the quota.

    On a node with several models, where the first answer breaks it, the answer is asked for again
    without the models of one set after another, small sets first: the pod may fit on what is left.
    """

    def answer(node: Node, request: PodRequest) -> Placement | Refusal:
        first = placer(node, request)
        if isinstance(first, Refusal):
            return first
        refusal = check(quota, usage, namespace, node, first, without=without)
        if refusal is None or refusal.reason is Reason.POOL_FORBIDDEN:
            return first if refusal is None else refusal
        for other in itertools.islice(_avoiding(node, request), _MOST_MIXTURES):
            again = placer(node, other)
            if isinstance(again, Refusal):
                continue
            if check(quota, usage, namespace, node, again, without=without) is None:
                return again
        return refusal

    return answer


def _avoiding(node: Node, request: PodRequest) -> Iterator[PodRequest]:
    models = sorted({label_safe_model(card.model) for card in node.cards} - {""})
    for size in range(1, len(models)):
        for avoided in itertools.combinations(models, size):
            exclude = (*request.models.exclude, *avoided)
            yield replace(request, models=replace(request.models, exclude=exclude))


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
        if more := _matching(asked, name):
            cards[name] = max(now, usage.used(namespace, name) + more)
    if pools and node.pool and node.pool not in pools:
        pools = (*pools, node.pool)
    allowed = NamespaceQuota(cards=MappingProxyType(cards), pools=pools)
    return Quota(namespaces=MappingProxyType({**quota.namespaces, namespace: allowed}))


def _matching(held: Mapping[str, int], pattern: str) -> int:
    return sum(cores for model, cores in held.items() if model_matches(pattern, model))


def _wrong_pool(namespace: str, limit: NamespaceQuota, node: Node) -> Refusal:
    where = f"pool {node.pool!r}" if node.pool else "no pool"
    return Refusal(
        reason=Reason.POOL_FORBIDDEN,
        detail=f"node {node.name} is in {where}; the quota of namespace {namespace!r} allows "
        f"pool {', '.join(limit.pools)}",
    )


def _wrong_model(namespace: str, limit: NamespaceQuota, node: Node, model: str) -> Refusal:
    named = ", ".join(sorted(limit.cards)) or "none"
    what = f"model {model}" if model else "cards whose model nobody names"
    return Refusal(
        reason=Reason.MODEL_FORBIDDEN,
        detail=f"node {node.name} has {what}; the quota of namespace {namespace!r} names the "
        f"models {named}",
    )


def _too_much(
    namespace: str, name: str, amount: tuple[int, int, int], held: Sequence[tuple[str, str, int]]
) -> Refusal:
    used, limit, more = amount
    named = ", ".join(f"{pod} {cards_text(part)}" for _, pod, part in held[:_LARGEST_NAMED])
    rest = len(held) - _LARGEST_NAMED
    by = f" ({named}{f', and {rest} more' if rest > 0 else ''})" if named else ""
    return Refusal(
        reason=Reason.QUOTA_EXCEEDED,
        detail=f"namespace {namespace!r} holds {cards_text(used)} of its {cards_text(limit)} "
        f"{name} cards{by}; the pod needs {cards_text(more)} more",
    )
