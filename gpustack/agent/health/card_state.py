"""One card's state, and how it changes.

    healthy ──► unhealthy ──► quarantined ──► probed ──► healthy

A card is *unhealthy* while queries find a fault. It is *quarantined* while the agent remembers a
fault that queries don't show: an XID whose end was not seen yet, or the word of a person. It is
*probed* once its faults are over: NVML answers, no memory row waits for its remapping, and no new
XID has come. After a quiet time the card is *healthy*, and only then takes new work. Containers
that run on the card keep it in every state.

The probe returns a card that a rule closed; only a person returns a card that a person closed.
"""

import enum
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from gpustack.adapters.nvml import ACCEPTABLE, LOST, SILENT, CardFault, Ends

HELD: Final = "Quarantined"
"""The reason of a card that a person took."""

MOST_CHANGES: Final = 32  # of a card that are remembered
_MOST_BLAMES: Final = 16
LONGEST_TEXT: Final = 256  # characters of a person's words


class State(enum.Enum):
    """The state of a card; the values stand in the state file and on the control socket."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    QUARANTINED = "quarantined"
    PROBED = "probed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """A change of a card: its new state, the time and the reason.

    Attributes:
        time: RFC 3339, UTC.
        reason: one word; of a healthy card, empty.
        text: the event, in words.
    """

    time: str
    state: State
    reason: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardState:
    """The knowledge of a card's health.

    Attributes:
        held: a person's words, while a person keeps the card out of use.
        blames: reasons of XIDs whose end was not seen yet, oldest first.
        accepted: faults that a person has put the card to use with, until queries miss them.
        lost: the card has fallen off the bus and is not back yet.
        history: the last changes, oldest first.
    """

    uuid: str
    state: State = State.HEALTHY
    reason: str = ""
    text: str = ""
    since: str = ""
    held: str | None = None
    blames: tuple[str, ...] = ()
    accepted: frozenset[str] = frozenset()
    lost: bool = False
    history: tuple[StateChange, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether a query that finds no fault leaves the card as it is."""
        return self.state is State.HEALTHY and not self.accepted

    def blamed(self, fault: CardFault) -> "CardState":
        """Return the card after an XID."""
        others = tuple(each for each in self.blames if each != fault.reason)
        return replace(self, blames=(*others, fault.reason)[-_MOST_BLAMES:])

    def seen(self, found: Collection[str]) -> "CardState":
        """Return the card after a query that found these faults."""
        back = self.lost and SILENT.isdisjoint(found)
        lost = LOST in found or (self.lost and not back)
        blames = tuple(
            each
            for each in self.blames
            if not (back and _ends(each) is Ends.RESET) and _ends(each) is not Ends.QUIET
        )
        return replace(self, lost=lost, blames=blames, accepted=self.accepted.intersection(found))

    def booted(self) -> "CardState":
        """Return the card after a boot of the host, which is a reset too."""
        blames = tuple(each for each in self.blames if _ends(each) is Ends.PERSON)
        return replace(self, lost=False, blames=blames)

    def released(self, found: Collection[str]) -> "CardState":
        """Return the card after a person has released it from faults and quarantine."""
        return replace(self, held=None, blames=(), accepted=ACCEPTABLE.intersection(found))

    def judged(self, found: Collection[str], *, quiet: bool, now: str, why: str) -> "CardState":
        """Return the card with the state that follows from the rest of it.

        Args:
            found: the faults that queries find now.
            quiet: the time of a probe is over, or a person needs none.
            now: the time, RFC 3339.
            why: the event, where the state itself doesn't say it.
        """
        faults = [each for each in found if each not in self.accepted]
        reason = (faults or self.blames[-1:] or (self.reason,))[0]
        if self.held is not None:
            return self._become(State.QUARANTINED, faults[0] if faults else HELD, self.held, now)
        if self.blames or faults:
            state = State.QUARANTINED if self.blames else State.UNHEALTHY
            return self._become(state, reason, CardFault(uuid=self.uuid, reason=reason).text, now)
        if self.state is State.HEALTHY or quiet:
            return self._become(State.HEALTHY, "", why, now)
        return self._become(State.PROBED, reason, f"probed after {reason}", now)

    def _become(self, state: State, reason: str, text: str, now: str) -> "CardState":
        if (state, reason) == (self.state, self.reason) and (text == self.text or not reason):
            return self
        change = StateChange(time=now, state=state, reason=reason, text=text)
        return replace(
            self,
            state=state,
            reason=reason,
            text=text if reason else "",
            since=now,
            history=(*self.history, change)[-MOST_CHANGES:],
        )


def _ends(reason: str) -> Ends | None:
    return CardFault(uuid="", reason=reason).ends
