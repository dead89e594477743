"""The node's condition `UnhealthyCards`: True while a card takes no new pods.

As with those of node-problem-detector, and unlike Ready, True is the bad state. It is for people
and their alerts: the extender reads the annotation.
"""

from collections.abc import Mapping
from typing import Any, Final

from gpustack.model.node import Card, Node

TYPE: Final = "UnhealthyCards"
_MOST_SHOWN: Final = 16


def to_write(node: Node, found: Mapping[str, Any], now: str) -> dict[str, str] | None:
    """Return the condition to write, None where the node has it.

    Args:
        node: the cards.
        found: the node as the API server has it.
        now: RFC 3339.
    """
    closed = [card for card in node.cards if not card.healthy]
    wanted = {
        "type": TYPE,
        "status": "True" if closed else "False",
        "reason": "CardsClosed" if closed else "AllCardsOpen",
        "message": _message(closed, len(node.cards)),
    }
    conditions = (found.get("status") or {}).get("conditions") or ()
    before: Mapping[str, str] = next((each for each in conditions if each.get("type") == TYPE), {})
    if all(before.get(key) == text for key, text in wanted.items()):
        return None
    stays = before.get("status") == wanted["status"] and before.get("lastTransitionTime")
    return wanted | {"lastHeartbeatTime": now, "lastTransitionTime": stays or now}


def _message(closed: list[Card], count: int) -> str:
    if not closed:
        return f"all {count} cards take pods"
    shown = ", ".join(
        f"{card.minor} ({card.reason} since {card.since})" for card in closed[:_MOST_SHOWN]
    )
    more = f" and {len(closed) - _MOST_SHOWN} more" if len(closed) > _MOST_SHOWN else ""
    return f"{len(closed)} of {count} cards take no new pods: {shown}{more}"
