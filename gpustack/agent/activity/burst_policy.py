"""Which containers may exceed their share: those without a neighbour that wants the card.

A container's ledger says whether it wants a card, and its tenant can forge it. A forged wish takes
the burst of others and a hidden one leaves it to them; the guaranteed shares stay in both cases.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from gpustack.agent.activity.shares import Share
from gpustack.agent.identification.process_owners import Owner
from gpustack.wire.mapped.ledger import LedgerReading

# A container that launches one long kernel after another wants the card between its launches, too;
# the hook of one that waits says so every 250 ms.
WANT_NS: Final = 1_000_000_000


Wishes = Mapping[str, frozenset[Owner]]
"""By card, the containers that want compute."""


def wanting(shares: Iterable[Share], ledgers: Mapping[Owner, LedgerReading], now_ns: int) -> Wishes:
    """Return, by card, the containers that wanted compute within the last second.

    Args:
        shares: all that have a part of a card.
        ledgers: their readings; a container without a readable ledger counts as wanting its card,
            because the agent can't see that it doesn't.
        now_ns: CLOCK_MONOTONIC.
    """
    found: dict[str, set[Owner]] = {}
    for share in shares:
        reading = ledgers.get(share.owner)
        wanted = {
            use.uuid: now_ns - use.last_want_ns <= WANT_NS
            for use in (reading.cards if reading is not None else ())
        }
        for uuid in share.uuids:
            owners = found.setdefault(uuid, set())
            if wanted.get(uuid, True):
                owners.add(share.owner)
    return {uuid: frozenset(owners) for uuid, owners in found.items()}


def next_end_ns(ledgers: Mapping[Owner, LedgerReading], now_ns: int) -> int:
    """Return when the first of these wishes ends, if no ledger changes; far away without one."""
    ends = (use.last_want_ns + WANT_NS for each in ledgers.values() for use in each.cards)
    return min((end_ns for end_ns in ends if end_ns >= now_ns), default=1 << 63)


def allowed(share: Share, uuid: str, wishes: Wishes) -> bool:
    """Say whether a container may exceed its share of a card now."""
    return uuid in share.elastic and not wishes.get(uuid, frozenset()) - {share.owner}
