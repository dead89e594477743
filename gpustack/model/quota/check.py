"""Whether a namespace may hold a placement as well, and the words of a refusal.

The rules are those of the original gpu-admission's quota filter of 2020: a namespace that is not
listed is unlimited. In a listed one a model or a pool that is not listed is refused, and an empty
list of pools means every pool. Amounts are hundredths of a card that placements hold (`usage`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from gpustack.model.model_name import model_matches
from gpustack.model.node import Node
from gpustack.model.placement import Placement
from gpustack.model.quota.claim import Claim
from gpustack.model.quota.fewer_models import Left
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.quota.usage import Usage, amounts, matching
from gpustack.model.refusal import Reason
from gpustack.model.request import PodRequest
from gpustack.model.units import cards_text

_LARGEST_NAMED: Final = 3  # a refusal names so many of the pods that use the quota


@dataclass(frozen=True, slots=True)
class Violation:
    """What of a quota a placement breaks; only the words cost a look at the namespace's pods."""

    reason: Reason
    words: Callable[[], str]

    @property
    def detail(self) -> str:
        """The sentence of a refusal, with names and numbers."""
        return self.words()


def check(
    quota: Quota,
    usage: Usage,
    namespace: str,
    node: Node,
    placement: Placement,
    *,
    without: Collection[str] = (),
) -> Violation | None:
    """Return why the namespace may not hold `placement` as well; None when it may.

    `without` names pods (UIDs) that don't count: the pod itself, where it is counted already, or
    pods that are about to end.
    """
    if quota.of(namespace) is None:
        return None
    return check_amounts(quota, usage, namespace, node, amounts(node, placement), without=without)


def check_amounts(
    quota: Quota,
    usage: Usage,
    namespace: str,
    node: Node,
    asked: Mapping[str, int],
    *,
    without: Collection[str] = (),
) -> Violation | None:
    """Return the same of so many hundredths of a card by model, on cards of `node`."""
    limit = quota.of(namespace)
    if limit is None:
        return None
    if limit.pools and node.pool not in limit.pools:
        return Violation(Reason.POOL_FORBIDDEN, partial(_of_pool, namespace, limit.pools, node))
    for model in sorted(asked):
        if not any(model_matches(name, model) for name in limit.cards):
            words = partial(_of_model, namespace, limit.cards, node, model)
            return Violation(Reason.MODEL_FORBIDDEN, words)
    for name in sorted(limit.cards):
        more = matching(asked, name)
        used = usage.used(namespace, name, without=without)
        if more and used + more > limit.cards[name]:
            amount = used, limit.cards[name], more
            words = partial(_of_amount, usage, namespace, name, amount, without)
            return Violation(Reason.QUOTA_EXCEEDED, words)
    return None


def others_may_do(
    quota: Quota,
    usage: Usage,
    namespace: str,
    node: Node,
    asked: Mapping[str, int],
    *,
    request: PodRequest,
    without: Collection[str] = (),
) -> bool:
    """Say whether a pod that may not hold `asked` may hold less on other cards of the one model.

    It takes as much of each of them, but for ordinary init containers.
    """
    if not request.held_varies or len(asked) != 1:
        return False
    least = dict.fromkeys(asked, sum(each.cores for each in request.running))
    return check_amounts(quota, usage, namespace, node, least, without=without) is None


def exceeds(quota: Quota, usage: Usage, claim: Claim) -> bool:
    """Say whether a pod's namespace may not hold one of the amounts that the pod may take.

    The pod itself isn't counted.
    """
    limit = quota.of(claim.namespace)
    if limit is None:
        return False
    for name, most in limit.cards.items():
        more = max((matching(each, name) for each in claim.amounts), default=0)
        if more and usage.used(claim.namespace, name, without=(claim.uid,)) + more > most:
            return True
    return False


def _of_pool(namespace: str, pools: Sequence[str], node: Node) -> str:
    where = f"pool {node.pool!r}" if node.pool else "no pool"
    return (
        f"node {node.name} is in {where}; the quota of namespace {namespace!r} allows "
        f"pool {', '.join(pools)}"
    )


def _of_model(namespace: str, names: Collection[str], node: Node, forbidden: str) -> str:
    named = f"the models {', '.join(sorted(names))}" if names else "no model"
    what = f"model {forbidden}" if forbidden else "cards without a model name"
    return f"node {node.name} has {what}; the quota of namespace {namespace!r} names {named}"


def _of_amount(
    usage: Usage,
    namespace: str,
    name: str,
    hundredths: tuple[int, int, int],
    without: Collection[str],
) -> str:
    """Name the pods that use the quota; `hundredths` are those used, allowed and needed."""
    used, limit, more = hundredths
    held = usage.holders(namespace, name, without=without)
    waits = partial(usage.is_claim, namespace)
    named = ", ".join(
        f"{pod} {cards_text(part)}{', which waits to be bound' if waits(uid) else ''}"
        for uid, pod, part in held[:_LARGEST_NAMED]
    )
    rest = len(held) - _LARGEST_NAMED
    by = f" ({named}{f', and {rest} more' if rest > 0 else ''})" if named else ""
    return (
        f"namespace {namespace!r} holds {cards_text(used)} of its {cards_text(limit)} "
        f"{name} cards{by}; the pod needs {cards_text(more)} more"
    )


def left_of(
    quota: Quota, usage: Usage, namespace: str, node: Node, without: Collection[str]
) -> Left:
    """Return what the namespace may still take of the node's cards."""
    limit = quota.of(namespace) or NamespaceQuota()
    left = {
        name: most - usage.used(namespace, name, without=without)
        for name, most in limit.cards.items()
    }
    kinds = {
        at: tuple(sorted(name for name in left if model_matches(name, card.model)))
        for at, card in enumerate(node.cards)
    }
    parts = {kind: min((left[name] for name in kind), default=0) for kind in set(kinds.values())}
    return Left(kinds=kinds, parts=parts)


def raised(
    quota: Quota,
    usage: Usage,
    namespace: str,
    node: Node,
    placement: Placement,
    *,
    without: Collection[str] = (),
) -> Quota:
    """Return the least generous quota that allows `placement` beside what is used already.

    A node without a pool, or a card without a model, is beyond any quota that names them. Pods
    `without` (UIDs) don't count.
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
            cards[name] = max(now, usage.used(namespace, name, without=without) + more)
    if pools and node.pool and node.pool not in pools:
        pools = (*pools, node.pool)
    allowed = NamespaceQuota(cards=cards, pools=pools)
    return Quota(namespaces={**quota.namespaces, namespace: allowed})
