"""How many steps of TLS handshakes one turn of the loop takes, and whose."""

import asyncio
import itertools
from collections.abc import Hashable
from typing import Final

_STEPS: Final = 8  # a millisecond or two each; connections that are let in are heard between them


class HandshakeBudget:
    """The steps that are left in this turn.

    The selector names connections in the order of its own, the same in each turn as long as all of
    them send: those that got no step come first in the next.
    """

    def __init__(self, events: asyncio.AbstractEventLoop) -> None:
        self._events = events
        self._left = _STEPS
        self._waiting: dict[Hashable, None] = {}  # the one that has waited longest comes first

    def take(self, conn: Hashable) -> bool:
        """Count a step of a connection; False where it is for others to take this turn's."""
        if self._left == _STEPS:
            self._events.call_soon(self._renew)  # runs before anything else of the next turn
        self._waiting[conn] = None
        if conn not in itertools.islice(self._waiting, self._left):
            return False
        del self._waiting[conn]
        self._left -= 1
        return True

    def forget(self, conn: Hashable) -> None:
        """Let others have the step that a connection waits for."""
        self._waiting.pop(conn, None)

    def _renew(self) -> None:
        self._left = _STEPS
