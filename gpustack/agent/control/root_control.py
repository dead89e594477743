"""What root may do with the running agent, by `agent.sock`."""

import logging
from collections.abc import Callable, Sequence

from gpustack.adapters.control import CardChange, CardStatus, ControlRefusal
from gpustack.agent.health.card_state import CardState
from gpustack.agent.node.inventory import CardInventory
from gpustack.model.node import Card

logger = logging.getLogger(__name__)


class RootControl:
    """Implements the adapter's `Control`.

    Args:
        reload: takes over the configuration file.
    """

    def __init__(self, inventory: CardInventory, reload: Callable[[], Sequence[str]]) -> None:
        self._inventory = inventory
        self._reload = reload

    def cards(self) -> Sequence[CardStatus]:
        """Return the host's cards, ascending by minor."""
        states = self._inventory.states
        return [_status(card, states.of(card.uuid)) for card in self._inventory.node.cards]

    def quarantine(self, card: str, reason: str) -> CardStatus:
        """Keep a card out of use until it is released."""
        found = self._find(card)
        return _status(found, self._inventory.quarantine(found.uuid, reason))

    def release(self, card: str, reason: str) -> CardStatus:
        """Put a card to use again."""
        found = self._find(card)
        return _status(found, self._inventory.release(found.uuid, reason))

    def reload(self) -> Sequence[str]:
        """Take over the configuration file."""
        return self._reload()

    def _find(self, name: str) -> Card:
        cards = self._inventory.node.cards
        for card in cards:
            if name in (card.uuid, str(card.minor)):
                return card
        known = ", ".join(f"{card.minor} ({card.uuid})" for card in cards)
        raise ControlRefusal(f"no card has the UUID or minor {name[:80]!r}; there are {known}")


def _status(card: Card, state: CardState) -> CardStatus:
    return CardStatus(
        minor=card.minor,
        uuid=card.uuid,
        model=card.model,
        state=state.state.value,
        reason=state.reason,
        text=state.text,
        since=state.since,
        history=tuple(
            CardChange(time=each.time, state=each.state.value, reason=each.reason, text=each.text)
            for each in state.history
        ),
    )
