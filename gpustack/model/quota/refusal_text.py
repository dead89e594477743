"""What a refusal says that a namespace's quota is the cause of."""

from collections.abc import Collection, Sequence
from typing import Final

from gpustack.model.node import Node
from gpustack.model.quota.usage import Usage
from gpustack.model.refusal import Reason, Refusal
from gpustack.model.units import CORES_PER_CARD

_LARGEST_NAMED: Final = 3  # a refusal names so many of the pods that use the quota


def cards_text(hundredths: int) -> str:
    """Return hundredths as people write cards: `4`, `2.5`, `0.25`."""
    whole, part = divmod(hundredths, CORES_PER_CARD)
    return f"{whole}.{part:02d}".rstrip("0") if part else str(whole)


def pool(namespace: str, pools: Sequence[str], node: Node) -> Refusal:
    """Return the refusal of a node that is in none of the quota's pools."""
    where = f"pool {node.pool!r}" if node.pool else "no pool"
    return Refusal(
        reason=Reason.POOL_FORBIDDEN,
        detail=f"node {node.name} is in {where}; the quota of namespace {namespace!r} allows "
        f"pool {', '.join(pools)}",
    )


def model(namespace: str, names: Collection[str], node: Node, forbidden: str) -> Refusal:
    """Return the refusal of a model that is none of the names in the quota."""
    named = f"the models {', '.join(sorted(names))}" if names else "no model"
    what = f"model {forbidden}" if forbidden else "cards without a model name"
    return Refusal(
        reason=Reason.MODEL_FORBIDDEN,
        detail=f"node {node.name} has {what}; the quota of namespace {namespace!r} names {named}",
    )


def amount(
    usage: Usage,
    namespace: str,
    name: str,
    amounts: tuple[int, int, int],
    without: Collection[str],
) -> Refusal:
    """Return the refusal of what is more than is left; names the pods that use the quota.

    Args:
        usage: what the namespace holds.
        namespace: the owner of the quota.
        name: of the models in the quota.
        amounts: hundredths that are used, that the quota allows, and that the pod needs.
        without: pods (UIDs) that don't count.
    """
    used, limit, more = amounts
    held = usage.holders(namespace, name, without=without)
    named = ", ".join(f"{pod} {cards_text(part)}" for _, pod, part in held[:_LARGEST_NAMED])
    rest = len(held) - _LARGEST_NAMED
    by = f" ({named}{f', and {rest} more' if rest > 0 else ''})" if named else ""
    return Refusal(
        reason=Reason.QUOTA_EXCEEDED,
        detail=f"namespace {namespace!r} holds {cards_text(used)} of its {cards_text(limit)} "
        f"{name} cards{by}; the pod needs {cards_text(more)} more",
    )
