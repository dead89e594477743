"""What each share used of its card so far, for the metrics.

A ledger's counters end with the process that wrote them; these go on.
"""

import dataclasses
from typing import Final

from gpustack.agent.identification.process_owners import Owner
from gpustack.wire.mapped.ledger import CardUse, LedgerReading

_NS: Final = 1e9


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFigures:
    """One container on one card, as its hook says.

    Attributes:
        used_bytes: memory charged now.
        busy_ns: GPU time since the agent's start.
        measured_ns: the same without what hooks add or take by the agent's count.
        throttled_seconds: time since then that launches were held back.
        denied: requests for memory since then that were refused.
    """

    used_bytes: int = 0
    busy_ns: int = 0
    measured_ns: int = 0
    throttled_seconds: float = 0.0
    denied: int = 0

    @property
    def busy_seconds(self) -> float:
        """GPU time since the agent's start, for the metrics."""
        return self.busy_ns / _NS


_NOTHING: Final = LedgerFigures()


class ShareFigures:
    """The figures by container and card; the metrics' thread reads them."""

    def __init__(self) -> None:
        self._last: dict[tuple[Owner, str], CardUse] = {}
        self._found: dict[tuple[Owner, str], LedgerFigures] = {}

    def note(self, owner: Owner, ledger: LedgerReading) -> None:
        """Take a reading; a count that has gone back is one of other processes."""
        for use in ledger.cards:
            key = owner, use.uuid
            last = self._last.get(key, use)
            before = self._found.get(key, _NOTHING)
            self._last[key] = use
            self._found[key] = LedgerFigures(
                used_bytes=use.used_bytes,
                busy_ns=before.busy_ns + max(0, use.busy_ns - last.busy_ns),
                measured_ns=before.measured_ns + max(0, use.measured_ns - last.measured_ns),
                throttled_seconds=before.throttled_seconds
                + max(0, use.throttled_ns - last.throttled_ns) / _NS,
                denied=before.denied + max(0, use.denied - last.denied),
            )

    def of(self, owner: Owner, uuid: str) -> LedgerFigures:
        """Return a container's figures on a card; zeros before its ledger was read."""
        return self._found.get((owner, uuid), _NOTHING)

    def forget(self, living: frozenset[Owner]) -> None:
        """Drop the containers that are gone."""
        self._last = {key: each for key, each in self._last.items() if key[0] in living}
        self._found = {key: each for key, each in self._found.items() if key[0] in living}
