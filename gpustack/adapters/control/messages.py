"""The control service's requests and answers as values instead of protobuf messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gpustack.model.errors import GpustackError


class ControlRefusal(GpustackError):
    """The agent refuses: a card that it doesn't have, a configuration that it can't take over."""


class ControlUnavailable(GpustackError):
    """The agent's socket does not answer, or not to this user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardChange:
    """One change of a card: RFC 3339 time, the state that it took, one word and a sentence why."""

    time: str
    state: str
    reason: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardStatus:
    """A card as the agent judges it; `history` is oldest first."""

    minor: int
    uuid: str
    model: str
    state: str
    reason: str
    text: str
    since: str
    history: Sequence[CardChange] = ()


class Control(Protocol):
    """What root may do. Methods run on the server's threads."""

    def cards(self) -> Sequence[CardStatus]:
        """Return the host's cards, ascending by minor."""

    def quarantine(self, card: str, reason: str) -> CardStatus:
        """Keep a card (UUID or minor) out of use.

        Raises:
            ControlRefusal: there is no such card.
        """

    def release(self, card: str, reason: str) -> CardStatus:
        """Put a card to use again.

        Raises:
            ControlRefusal: there is no such card.
        """

    def reload(self) -> Sequence[str]:
        """Take over the configuration file; return the keys that have another value now.

        Raises:
            ControlRefusal: it can't be used, or a key has changed that needs a restart.
        """
