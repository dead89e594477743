"""GPU time as containers count it themselves, over the last seconds.

The driver's samples are some tenths of a second old when they come. While a container's use is
steady, its use since then follows from its use before. When its burst has begun or ended in
between, only its own ledger says so. That value counts until the driver's next window is over, and
is then replaced: it adds nothing for good.
"""

import collections
from typing import Final

from gpustack.agent.identification.process_owners import Owner
from gpustack.wire.mapped.ledger import LedgerReading

# Windows of one second, a second's look and the driver's own delay.
_KEPT_NS: Final = 4_000_000_000


class LedgerUsage:
    """Busy time of the ledgers, by container and card, and the time when bursts began or ended."""

    def __init__(self) -> None:
        self._readings: dict[tuple[Owner, str], collections.deque[tuple[int, int]]] = {}
        self._bursts: dict[tuple[Owner, str], tuple[bool, int]] = {}

    def note(self, owner: Owner, ledger: LedgerReading, now_ns: int) -> None:
        """Take a reading (CLOCK_MONOTONIC) that differs from the one before."""
        for use in ledger.cards:
            readings = self._readings.setdefault((owner, use.uuid), collections.deque())
            readings.append((now_ns, use.busy_ns))
            while len(readings) > 1 and readings[1][0] < now_ns - _KEPT_NS:
                readings.popleft()

    def note_burst(self, owner: Owner, uuid: str, *, allowed: bool, now_ns: int) -> None:
        """Take whether a container may burst on a card now."""
        before = self._bursts.get((owner, uuid))
        if before is None or before[0] != allowed:
            self._bursts[owner, uuid] = (allowed, now_ns)

    def since_change(self, owner: Owner, uuid: str, *, begin_ns: int, end_ns: int) -> int | None:
        """Return the GPU time that a container claims after ``end_ns``.

        Args:
            owner: the container.
            uuid: the card.
            begin_ns: when the driver's span began (CLOCK_MONOTONIC).
            end_ns: when it ended.

        Returns:
            0 where its burst has neither begun nor ended since ``begin_ns``, or where its
            ledger has no reading.
        """
        readings = self._readings.get((owner, uuid))
        burst = self._bursts.get((owner, uuid))
        if not readings or burst is None or burst[1] < begin_ns:
            return None
        before = readings[0][1]
        for when_ns, busy_ns in readings:
            if when_ns > end_ns:
                break
            before = busy_ns
        # A process that has ended takes its count with it; a tenant may write any value, but no
        # card has worked longer than the time that has passed.
        passed_ns = max(0, readings[-1][0] - end_ns)
        return min(passed_ns, max(0, readings[-1][1] - before))

    def forget(self, living: frozenset[Owner]) -> None:
        """Drop the containers that are gone."""
        self._readings = {key: each for key, each in self._readings.items() if key[0] in living}
        self._bursts = {key: each for key, each in self._bursts.items() if key[0] in living}
