"""Whether a namespace may hold a placement as well, and the words of a refusal.

The rules are those of the original gpu-admission's quota filter of 2020: a namespace that is not
listed is unlimited. In a listed one a model or a pool that is not listed is refused, and an empty
list of pools means every pool. Amounts are hundredths of a card that placements hold (`usage`).
"""

from collections.abc import Callable, Collection
from functools import partial

from gpustack.model.model_name import model_matches
from gpustack.model.node import Node
from gpustack.model.placement import Placement
from gpustack.model.quota import refusal_text
from gpustack.model.quota.fewer_models import Left
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.quota.usage import Usage, amounts, matching
from gpustack.model.refusal import Reason, Refusal


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
