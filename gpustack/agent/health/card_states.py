"""The states of all cards, kept over restarts of the agent and of the host."""

import datetime
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from gpustack.adapters.nvml import FAULTS, XID_RULES, CardFault
from gpustack.agent.health.card_state import HELD, LONGEST_TEXT, CardState, State
from gpustack.agent.health.state_file import StateFile, StateFileError
from gpustack.wire.one_line import one_line

logger = logging.getLogger(__name__)

_MOST_CARDS: Final = 64  # in the file; those of this host first
OTHER_XID: Final = "XidOther"
"""The label of an XID that stands in no table: labels are bounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRules:
    """What an operator may set, also while the agent runs.

    Attributes:
        probe_seconds: for how long a card must be quiet before it takes new work again.
        ignored_xids: XIDs that say nothing against a card, besides those of NVIDIA's table.
    """

    probe_seconds: float
    ignored_xids: frozenset[int] = frozenset()


def now_text() -> str:
    """Return the time as RFC 3339, UTC."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class CardStates:
    """Judges cards by what queries, XIDs and people say of them; thread-safe.

    Args:
        file: where the states are kept.
        rules: the operator's.
        tell: hears of each change, with the card before and after it.
        clock: monotonic seconds.
        now: the time as RFC 3339, UTC.

    Attributes:
        rules: may be replaced at any time.
        problem: why the states aren't kept, or were not found again; empty when they are.
        faults: how many times cards became faulty, by label.
        xids: how many XIDs came since the agent's start, by UUID and label.
    """

    def __init__(
        self,
        file: StateFile,
        rules: HealthRules,
        *,
        tell: Callable[[CardState, CardState], None] = lambda _, __: None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], str] = now_text,
    ) -> None:
        self._file = file
        self.rules = rules
        self._tell = tell
        self._clock = clock
        self._now = now
        self._lock = threading.Lock()  # guards what follows
        self._found: dict[str, tuple[str, ...]] = {}  # the present faults of each card
        self._probed_at: dict[str, float] = {}
        self._unsaved = True  # a boot is noted, too
        self.problem = ""
        self.faults: dict[str, int] = {}
        self.xids: dict[tuple[str, str], int] = {}
        self._cards = {each.uuid: each for each in self._read()}

    def of(self, uuid: str) -> CardState:
        """Return a card's state."""
        with self._lock:
            return self._of(uuid)

    def observe(self, uuids: Collection[str], faults: Iterable[CardFault]) -> None:
        """Take note of all faults that queries find of these cards."""
        found: dict[str, tuple[str, ...]] = {uuid: () for uuid in uuids}
        for fault in faults:
            if fault.uuid in found:
                found[fault.uuid] += (fault.reason,)
        with self._lock:
            self._found = found
            for uuid, reasons in found.items():
                card = self._of(uuid)
                if uuid in self._cards and card.is_well and not reasons:
                    continue
                self._judge(card.seen(reasons), quiet=self._is_quiet(card))
            self._save()

    def count(self, fault: CardFault) -> None:
        """Count an XID, also one that says nothing against the card."""
        key = fault.uuid, label(fault.reason)
        self.xids = {**self.xids, key: self.xids.get(key, 0) + 1}  # another thread reads them

    def blame(self, fault: CardFault) -> None:
        """Take note of an XID."""
        if fault.xid is not None and fault.xid.number in self.rules.ignored_xids:
            logger.info("ignored by health.ignored_xids uuid=%s: %s", fault.uuid, fault.text)
            return
        with self._lock:
            self._probed_at.pop(fault.uuid, None)
            self._judge(self._of(fault.uuid).blamed(fault))
            self._save()

    def quarantine(self, uuid: str, text: str) -> CardState:
        """Keep a card out of use until a person releases it; return its state."""
        words = f"by hand: {one_line(text, LONGEST_TEXT)}" if text else "by hand"
        with self._lock:
            self._judge(replace(self._of(uuid), held=words))
            self._save()
            return self._of(uuid)

    def release(self, uuid: str, text: str) -> CardState:
        """Put a card to use again, except with a fault that keeps it from working."""
        words = f"released by hand: {one_line(text, LONGEST_TEXT)}" if text else "released by hand"
        with self._lock:
            card = self._of(uuid).released(self._found.get(uuid, ()))
            self._judge(card, quiet=True, why=words)
            self._save()
            return self._of(uuid)

    def by_reason(self, uuids: Iterable[str]) -> Mapping[str, float]:
        """Return how many of these cards take no new work, by label."""
        counts: dict[str, float] = {}
        with self._lock:
            for card in map(self._of, uuids):
                if card.state is not State.HEALTHY:
                    counts[label(card.reason)] = counts.get(label(card.reason), 0.0) + 1
        return counts

    def _of(self, uuid: str) -> CardState:
        return self._cards.get(uuid) or CardState(uuid=uuid, since=self._now())

    def _is_quiet(self, card: CardState) -> bool:
        """Say whether a probed card was quiet for long enough."""
        if card.state is State.PROBED and card.uuid in self._probed_at:
            return self._clock() - self._probed_at[card.uuid] >= self.rules.probe_seconds
        return not self.rules.probe_seconds

    def _judge(self, card: CardState, *, quiet: bool = False, why: str = "") -> None:
        before, now = self._cards.get(card.uuid), self._now()
        found = self._found.get(card.uuid, ())
        after = card.judged(found, quiet=quiet, now=now, why=why or "quiet for the time of a probe")
        if after.state is not State.PROBED:
            self._probed_at.pop(card.uuid, None)
        else:
            self._probed_at.setdefault(card.uuid, self._clock())
        if after == before:
            return
        if before is None or after != replace(before, lost=after.lost):
            self._unsaved = True
        self._cards[card.uuid] = after
        known = before or CardState(uuid=card.uuid)
        if (known.state, known.reason) != (after.state, after.reason):
            if after.state in (State.UNHEALTHY, State.QUARANTINED) and known.reason != after.reason:
                self.faults[label(after.reason)] = self.faults.get(label(after.reason), 0) + 1
            self._tell(known, after)

    def _save(self) -> None:
        if not self._unsaved:
            return
        here = [self._cards[uuid] for uuid in self._found if uuid in self._cards]
        others = [each for uuid, each in self._cards.items() if uuid not in self._found]
        try:
            self._file.write([*here, *others[::-1]][:_MOST_CARDS])
        except StateFileError as error:
            if self.problem != str(error):
                logger.error("the states of cards are not kept: %s", error)
            self.problem = str(error)
            return
        self._unsaved = False
        self.problem = ""

    def _read(self) -> tuple[CardState, ...]:
        try:
            return self._file.read()
        except StateFileError as error:
            logger.error("the states of cards can't be used, kept aside: %s", error)
            try:
                aside = self._file.set_aside(error.ending)
                logger.error("quarantined cards are forgotten, kept as %s", aside)
            except StateFileError as refused:
                logger.error("%s", refused)
            return ()


def label(reason: str) -> str:
    """Return the metric label of a reason; there are a fixed number of them."""
    rule = CardFault(uuid="", reason=reason).xid
    if reason in FAULTS or reason == HELD or (rule is not None and rule.number in XID_RULES):
        return reason
    return OTHER_XID
