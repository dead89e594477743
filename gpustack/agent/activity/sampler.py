"""The activity pages: the agent's samples of a container's cards for its hook.

Once a second, on the average, the agent asks the driver for the use of each container; in between,
it looks at the ledgers of the containers on a card with an elastic share twenty times a second, so
that a burst ends within 200 ms after a neighbour wants its share. Where no share is elastic it
sleeps until the next time. A page is written when it says something else, or when hooks would soon
take it for too old.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from gpustack.adapters import mapped
from gpustack.agent.activity import burst_policy
from gpustack.agent.activity.energy import EnergyAccounts
from gpustack.agent.activity.file_forms import FileForms
from gpustack.agent.activity.gpu_time_accounts import GpuTimeAccounts
from gpustack.agent.activity.ledger_usage import LedgerUsage
from gpustack.agent.activity.ledgers import Ledgers
from gpustack.agent.activity.memory_judge import MemoryJudge
from gpustack.agent.activity.nvml_usage import NOTHING, ContainerSample, NvmlUsage
from gpustack.agent.activity.share_figures import ShareFigures
from gpustack.agent.activity.shares import Share, Shares
from gpustack.agent.activity.strangers import Strangers
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.containers.limits_files import LimitsFiles
from gpustack.agent.identification.process_owners import Owner
from gpustack.agent.violations.old_pages import OldPages
from gpustack.wire.mapped.activity import Activity, CardActivity
from gpustack.wire.mapped.ledger import LedgerReading
from gpustack.wire.mapped.two_slot_page import LayoutError

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
BURST_SECONDS: Final = 0.05
_SILENT_SECONDS: Final = 30.0
# Pause after a look at a ledger with too many locks: each look delays those at other ledgers.
_PASS_NS: Final = 10_000_000_000
# Hooks burst by no page that is older than 1 s, and take its other words for 5 s
# (hook/src/limiter/limiter_ledger.c BURST_FRESH_NS, WORD_FRESH_NS).
_BURST_PAGE_NS: Final = 500_000_000
_PAGE_NS: Final = 2_000_000_000
_UNREAD_PAGE_NS: Final = 10_000_000_000  # of a container without a process that could read it


class ActivitySampler:
    """Keeps the activity pages of all shares, and their figures for the metrics.

    Args:
        records: the cards of each container.
        folders: where the pages and ledgers lie.
        usage: the driver's view of the containers.
        energy: divides what the cards draw.
        memory: judges what the driver sees, and reports isolation violations.
        clock_ns: CLOCK_MONOTONIC, which hooks compare with.
    """

    def __init__(
        self,
        *,
        records: AllocationRecords,
        folders: LimitsFiles,
        usage: NvmlUsage,
        energy: EnergyAccounts,
        memory: MemoryJudge,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._reader = Shares(records, folders)
        self._forms = FileForms(folders.held, memory.escapes, clock_ns)
        self._files = Ledgers(clock_ns)
        self._usage = usage
        self._escapes = memory.escapes
        self._clock_ns = clock_ns
        self.memory = memory
        self._strangers = Strangers(records, usage, memory.tell_stranger, clock_ns)
        self._claims = LedgerUsage()
        self._applied = OldPages()
        self.figures = ShareFigures()
        self.energy = energy
        self._accounts = GpuTimeAccounts(
            clock_ns, is_good=usage.is_good, collects=memory.escapes.reactions.wait
        )
        self._shares: tuple[Share, ...] = ()
        self._watched: tuple[Share, ...] = ()  # beside an elastic share, or one that pays
        self._debtors: set[str] = set()  # their cards
        self._read: dict[Owner, LedgerReading] = {}
        self._pages: dict[Owner, Activity] = {}  # as they were published last
        self._passed: dict[Owner, int] = {}  # by container: its ledger isn't read until then
        self._decide_at_ns = 0  # then a wish ends, or a page gets too old
        self._looked = time.monotonic()

    @property
    def problem(self) -> str:
        """For how long no look has ended; empty while they do."""
        seconds = time.monotonic() - self._looked
        return f"no look has ended for {seconds:.0f} s" if seconds > _SILENT_SECONDS else ""

    def run(self, stop: threading.Event) -> None:
        """Sample until `stop` is set."""
        while not stop.is_set():
            # No moment that a tenant could wait for: it sees when its page is written.
            next_look = time.monotonic() + LOOK_SECONDS * random.uniform(0.2, 1.8)  # noqa: S311
            self.look()
            while not stop.is_set() and (left := next_look - time.monotonic()) > 0:
                pause = BURST_SECONDS if self._watched else self._usage.pause_seconds
                stop.wait(min(left, pause))
                if time.monotonic() < next_look:
                    self._usage.look_for_short_processes()
                    if self._watched:
                        self.decide_bursts()

    def close(self) -> None:
        """Close the ledgers, after the last look."""
        self._files.forget(frozenset())

    def look(self) -> None:
        """Ask the driver about every share, and publish all pages."""
        self._shares = self._reader.read()
        cards = {uuid for share in self._shares for uuid in share.elastic}
        self._debtors = self._accounts.cards_of_debtors()
        cards |= self._debtors
        self._watched = tuple(each for each in self._shares if not cards.isdisjoint(each.uuids))
        self._forget_others()
        self._forms.look(self._shares)
        for share in self._shares:
            self._begin(share)
        self.memory.begin_look(self._shares, self._files)
        seen = self._usage.look({uuid for share in self._shares for uuid in share.uuids})
        self.energy.look(seen)
        self._read_ledgers(self._files.turns(self._shares), self._files.look)
        looked_at = [share for share in self._shares if self._files.had_turn(share)]
        self.memory.take(looked_at, seen, self._read, self._files)
        self.memory.take_unowned(self._usage.unowned_bytes)
        self._strangers.look(seen)
        self._accounts.count(self._shares, seen, self.figures, self._ahead_ns)
        for share in self._accounts.judge(self._shares, seen, self._usage):
            self._escapes.time_is_exceeded(
                share, is_good=self._accounts.is_good, collected=self._accounts.collects
            )
        for share in self._shares:
            if late := self._applied.look(share.owner, self._read.get(share.owner)):
                self._escapes.page_is_old(share, late)
        self._publish(self._shares)
        # Last, because a tenant chooses how long this takes.
        self._escapes.look(self._sights(seen))
        self._looked = time.monotonic()

    def decide_bursts(self) -> None:
        """Publish the pages of containers that may burst, after a look at their neighbours."""
        turns = self._files.turns(self._watched, slow=False)
        changed = self._read_ledgers(turns, self._files.glance)
        if changed or self._clock_ns() >= self._decide_at_ns:
            self._publish(self._watched)

    def _forget_others(self) -> None:
        living = frozenset(share.owner for share in self._shares)
        for kept in (self._read, self._pages, self._passed):
            for owner in kept.keys() - living:
                del kept[owner]
        self._accounts.forget(living)
        self.memory.forget(living)
        self._claims.forget(living)
        self._applied.forget(living)
        self.figures.forget(living)
        self._files.forget(living)
        self._escapes.forget(living)

    def _begin(self, share: Share) -> None:
        """Go on from the page: hooks count on the values that an earlier agent has published."""
        if all(self._accounts.knows(share.owner, uuid) for uuid in share.uuids):
            return
        try:
            cards = mapped.read_activity(share.folder / "activity").cards
        except (OSError, LayoutError) as error:
            what = "left to a newer agent" if share.newer else "begins anew"
            logger.warning("activity page %s share=%s: %s", what, share.full_name, error)
            cards = ()
        told = {each.uuid: each for each in cards}
        for uuid in share.uuids:
            card = told.get(uuid, CardActivity(uuid=uuid))
            self.memory.begin(share.owner, uuid, card.unaccounted_bytes)
            self._accounts.begin(share.owner, card)
            self._accounts.set_ceiling(share.owner, uuid, share.ceiling(uuid, bursts=False))

    def _read_ledgers(
        self, turns: Iterable[tuple[Share, bool]], read: Callable[[Share], LedgerReading]
    ) -> bool:
        """Read the ledgers whose turn it is; return whether one says something else than before.

        The last reading of another isn't believed: its container counts as wanting its cards.
        """
        changed = False
        for share, is_turn in turns:
            before = self._read.get(share.owner)
            now = self._ledger(share, read) if is_turn and not share.newer else None
            if now is before or now == before:
                continue
            changed = True
            if now is None:
                del self._read[share.owner]
                continue
            self._read[share.owner] = now
            self.figures.note(share.owner, now)
            if share.elastic:
                self._claims.note(share.owner, now, self._clock_ns())
        return changed

    def _ledger(self, share: Share, read: Callable[[Share], LedgerReading]) -> LedgerReading | None:
        if self._passed.get(share.owner, 0) > self._clock_ns():
            return None
        try:
            found = read(share)
            # A tenant may name any cards there, others at each look: all that is kept goes by card.
            if tuple(card.uuid for card in found.cards) == share.uuids:
                if found.false_sums:
                    self._escapes.sum_is_false(share)
                return found
            self._escapes.ledger_is_damaged(share, "it names other cards than the container has")
        except mapped.BusyLedgerError as error:
            logger.debug("ledger is not read at this look share=%s: %s", share.full_name, error)
        except LayoutError as error:
            self._escapes.ledger_is_damaged(share, str(error))
            if isinstance(error, mapped.LockedLedgerError):
                self._passed[share.owner] = self._clock_ns() + _PASS_NS
        except BlockingIOError:
            self._escapes.ledger_is_damaged(share, "the container holds a lease on it")
        except OSError as error:
            logger.debug("ledger is gone share=%s: %s", share.full_name, error)
        return None

    def _ahead_ns(self, owner: Owner, uuid: str, sight: ContainerSample) -> int:
        """Return a container's GPU time since the driver's windows ended."""
        end_ns = self._clock_ns() - sight.lag_ns
        claimed_ns = self._claims.since_change(
            owner, uuid, begin_ns=end_ns - sight.span_ns, end_ns=end_ns
        )
        return sight.ahead_ns if claimed_ns is None else claimed_ns

    def _sights(
        self, seen: Mapping[str, Mapping[Owner, ContainerSample]]
    ) -> list[tuple[Share, tuple[int, ...]]]:
        """Return the shares of cards that answer, with their processes there."""
        return [
            (share, seen[uuid].get(share.owner, NOTHING).pids)
            for share in self._shares
            for uuid in share.uuids
            if uuid in seen
        ]

    def _publish(self, wanted: Collection[Share]) -> None:
        """Publish the pages that say something else than before, or are old."""
        now_ns = self._clock_ns()
        wishes = burst_policy.wanting(wanted, self._read, now_ns)
        self._decide_at_ns = burst_policy.next_end_ns(self._read, now_ns)
        for share in wanted:
            cards = tuple(self._card(share, uuid, wishes) for uuid in share.uuids)
            page = self._pages.get(share.owner)
            old_ns = self._old_ns(share, cards)
            if page is None or page.cards != cards or now_ns >= page.sampled_ns + old_ns:
                page = self._pages[share.owner] = Activity(sampled_ns=now_ns, cards=cards)
                try:
                    published = mapped.publish_activity(share.folder / "activity", page)
                    self._applied.published(share.owner, published, now_ns)
                except (OSError, LayoutError) as error:
                    # The folder goes with its pod, at any moment.
                    del self._pages[share.owner]
                    logger.debug("page is not published share=%s: %s", share.full_name, error)
            self._decide_at_ns = min(self._decide_at_ns, page.sampled_ns + old_ns)

    def _old_ns(self, share: Share, cards: Collection[CardActivity]) -> int:
        """Return how old a page may get, by what its hooks do with it."""
        reading = self._read.get(share.owner)
        if reading is not None and not reading.slots:
            return _UNREAD_PAGE_NS
        return _BURST_PAGE_NS if any(each.burst_allowed for each in cards) else _PAGE_NS

    def _card(self, share: Share, uuid: str, wishes: burst_policy.Wishes) -> CardActivity:
        held = self._escapes.reactions.holds(share.owner)
        allowed = not held and burst_policy.allowed(share, uuid, wishes)
        self._claims.note_burst(share.owner, uuid, allowed=allowed, now_ns=self._clock_ns())
        self._accounts.set_ceiling(share.owner, uuid, share.ceiling(uuid, bursts=allowed))
        if uuid in self._debtors:
            self._decide_at_ns = 0
        return self._accounts.page(
            share.owner,
            uuid,
            tenants_wanting=len(wishes[uuid]),
            burst_allowed=allowed,
            unaccounted_bytes=self.memory.bytes_of(share.owner, uuid),
        )
