"""Processes that launch by a page that the agent has replaced.

A hook looks for new pages with its launches, at most every 20 ms (`hook/src/limiter/limiter_card.c`
REFRESH_NS), and notes in its place in the ledger which one it goes by. One that launches a second
after a page has come, and doesn't go by it, isn't told any more when a burst ends or a debt is due.
"""

import collections
from typing import Final

from gpustack.agent.identification.process_owners import Owner
from gpustack.wire.mapped.ledger import LedgerReading, SlotUse

_APPLY_NS: Final = 1_000_000_000
# Pages come every two seconds at least while a process may read them, and up to twenty a second.
_KEPT: Final = 64


class OldPages:
    """The pages of each container that were published last, and the launches beside them."""

    def __init__(self) -> None:
        self._published: dict[Owner, collections.deque[tuple[int, int]]] = {}
        self._late: dict[Owner, dict[int, int]] = {}  # by slot: its last launch

    def published(self, owner: Owner, generation: int, now_ns: int) -> None:
        """Take that a container's activity page has been replaced (CLOCK_MONOTONIC)."""
        kept = self._published.setdefault(owner, collections.deque(maxlen=_KEPT))
        kept.append((now_ns, generation))

    def look(self, owner: Owner, reading: LedgerReading | None) -> int:
        """Return how many processes have launched by an old page before this look and the last.

        Two launches: a hook that comes back from a pause says that it wants the card, and then
        reads its page. A ledger of layout 1 doesn't tell.
        """
        slots = () if reading is None else reading.slots
        late = {
            slot.index: launched_ns
            for slot in slots
            if self._is_late(owner, slot, launched_ns := max(e.last_want_ns for e in slot.cards))
        }
        before, self._late[owner] = self._late.get(owner, {}), late
        return sum(before.get(index, launched) != launched for index, launched in late.items())

    def forget(self, living: frozenset[Owner]) -> None:
        """Drop the containers that are gone."""
        self._published = {o: kept for o, kept in self._published.items() if o in living}
        self._late = {o: late for o, late in self._late.items() if o in living}

    def _is_late(self, owner: Owner, slot: SlotUse, launched_ns: int) -> bool:
        if slot.activity_generation is None or launched_ns == 0:
            return False
        pages = self._published.get(owner, collections.deque())
        # the last ones first: nearly all launches are of this moment
        for at_ns, generation in reversed(pages):
            if at_ns + _APPLY_NS <= launched_ns:
                return not generation <= slot.activity_generation <= pages[-1][1]
        return False
