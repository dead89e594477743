"""How many steps of TLS handshakes one turn of the loop takes."""

import asyncio
from typing import Final

_STEPS: Final = 8  # a millisecond or two each; connections that are let in are heard between them


class HandshakeBudget:
    """The steps that are left in this turn."""

    def __init__(self, events: asyncio.AbstractEventLoop) -> None:
        self._events = events
        self._left = _STEPS

    def take(self) -> bool:
        """Count a step; False where this turn has had as many as it may."""
        if self._left == _STEPS:
            self._events.call_soon(self._renew)  # runs before anything else of the next turn
        if not self._left:
            return False
        self._left -= 1
        return True

    def _renew(self) -> None:
        self._left = _STEPS
