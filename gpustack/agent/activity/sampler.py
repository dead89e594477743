"""The activity pages: the agent's samples of a container's cards for its hook.

Once a second the agent asks the driver for the use of each container; in between, it reads the
ledgers of the containers on a card with an elastic share twenty times a second, so that a burst
ends within 200 ms after a neighbour wants its share.
"""

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from gpustack.adapters import mapped
from gpustack.adapters.nvml import Nvml
from gpustack.agent.activity import burst_policy, shares
from gpustack.agent.activity.isolation_violations import IsolationViolations
from gpustack.agent.activity.ledger_usage import LedgerUsage
from gpustack.agent.activity.nvml_usage import NOTHING, ContainerSample, NvmlUsage
from gpustack.agent.activity.shares import Share
from gpustack.agent.activity.unaccounted import UnaccountedMemory
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.containers.limits_files import LimitsFiles
from gpustack.agent.identification.process_owners import Owner, ProcessOwners
from gpustack.wire.mapped.activity import Activity, CardActivity
from gpustack.wire.mapped.ledger import LedgerReading
from gpustack.wire.mapped.two_slot_page import LayoutError

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
BURST_SECONDS: Final = 0.05
# Pause after a look at a ledger with too many locks: each look delays those at other ledgers.
_PASS_NS: Final = 10_000_000_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """GPU time of a container on a card.

    Attributes:
        known_ns: in the driver's windows that are over.
        told_ns: the published value, up to now. Hooks compare it with their charges up to
            now: without the windows' lag, a burst that ends would look like a debt.
    """

    known_ns: int
    told_ns: int

    def plus(self, busy_ns: int, ahead_ns: int) -> "_Counted":
        known_ns = self.known_ns + busy_ns
        # A count of time doesn't go back.
        return _Counted(known_ns=known_ns, told_ns=max(self.told_ns, known_ns + ahead_ns))


class ActivitySampler:
    """Keeps the activity pages of all shares.

    Args:
        records: the cards of each container.
        folders: where the pages and ledgers lie.
        nvml: the driver.
        owners: the container of a process.
        escapes: reports isolation violations.
        clock_ns: CLOCK_MONOTONIC, which hooks compare with.
    """

    def __init__(
        self,
        *,
        records: AllocationRecords,
        folders: LimitsFiles,
        nvml: Nvml,
        owners: ProcessOwners,
        escapes: IsolationViolations,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._records = records
        self._folders = folders
        self._witness = NvmlUsage(nvml, owners)
        self._escapes = escapes
        self._clock_ns = clock_ns
        self._unaccounted = UnaccountedMemory()
        self._claims = LedgerUsage()
        self._counted: dict[tuple[Owner, str], _Counted] = {}  # by container and card
        self._shares: tuple[Share, ...] = ()
        self._passed: dict[Owner, int] = {}  # by container: its ledger isn't read until then

    @property
    def unaccounted_bytes(self) -> int:
        """Memory of all shares that no ledger explains."""
        return self._unaccounted.total_bytes()

    def run(self, stop: threading.Event) -> None:
        """Sample until `stop` is set."""
        next_look = 0.0
        while not stop.wait(BURST_SECONDS):
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + LOOK_SECONDS
                self.look()
            else:
                self.decide_bursts()

    def look(self) -> None:
        """Ask the driver about every share, and publish all pages."""
        self._shares = shares.read(self._records, self._folders)
        self._forget_others()
        for share in self._shares:
            self._begin(share)
        seen = self._witness.look({uuid for share in self._shares for uuid in share.uuids})
        ledgers = self._ledgers(self._shares)
        for share in self._shares:
            self._take(share, seen, ledgers.get(share.owner))
        wishes = burst_policy.wanting(self._shares, ledgers, self._clock_ns())
        self._publish(self._shares, wishes)

    def decide_bursts(self) -> None:
        """Publish the pages of containers that may burst, after a look at their neighbours."""
        cards = {uuid for share in self._shares for uuid in share.elastic}
        concerned = [share for share in self._shares if not cards.isdisjoint(share.uuids)]
        if concerned:
            ledgers = self._ledgers(concerned)
            wishes = burst_policy.wanting(concerned, ledgers, self._clock_ns())
            self._publish([share for share in concerned if share.elastic], wishes)

    def _forget_others(self) -> None:
        living = frozenset(share.owner for share in self._shares)
        self._counted = {key: each for key, each in self._counted.items() if key[0] in living}
        self._unaccounted.forget(living)
        self._claims.forget(living)
        self._passed = {owner: until for owner, until in self._passed.items() if owner in living}
        self._escapes.forget(living)

    def _begin(self, share: Share) -> None:
        """Go on from the page: hooks count on the values that an earlier agent has published."""
        if all((share.owner, uuid) in self._counted for uuid in share.uuids):
            return
        try:
            cards = mapped.read_activity(share.folder / "activity").cards
        except (OSError, LayoutError) as error:
            logger.warning("activity page begins anew share=%s: %s", share.full_name, error)
            cards = ()
        told = {each.uuid: each for each in cards}
        for uuid in share.uuids:
            card = told.get(uuid, CardActivity(uuid=uuid))
            self._unaccounted.begin(share.owner, uuid, card.unaccounted_bytes)
            self._counted[share.owner, uuid] = _Counted(known_ns=card.busy_ns, told_ns=card.busy_ns)

    def _ledgers(self, wanted: Collection[Share]) -> dict[Owner, LedgerReading]:
        found = {}
        for share in wanted:
            if self._passed.get(share.owner, 0) > self._clock_ns():
                continue
            try:
                ledger = found[share.owner] = mapped.read_ledger(share.folder / "ledger")
                if share.elastic:
                    self._claims.note(share.owner, ledger, self._clock_ns())
            except LayoutError as error:
                self._escapes.ledger_is_damaged(share, str(error))
                self._mend(share, error)
            except BlockingIOError:
                self._escapes.ledger_is_damaged(share, "the container holds a lease on it")
            except OSError as error:
                logger.debug("ledger is gone share=%s: %s", share.full_name, error)
        return found

    def _mend(self, share: Share, error: LayoutError) -> None:
        """Keep a damaged ledger from taking the agent's time and the disk."""
        if isinstance(error, mapped.LockedLedgerError):
            self._passed[share.owner] = self._clock_ns() + _PASS_NS
            return
        try:
            mapped.cut_ledger(share.folder / "ledger")
        except OSError as problem:
            logger.debug("ledger is not cut share=%s: %s", share.full_name, problem)

    def _take(
        self,
        share: Share,
        seen: Mapping[str, Mapping[Owner, ContainerSample]],
        ledger: LedgerReading | None,
    ) -> None:
        """Take over the driver's samples of a container; a silent card has none."""
        charged = {use.uuid: use.used_bytes for use in (ledger.cards if ledger else ())}
        for uuid in share.uuids:
            if uuid not in seen:
                continue
            sight = seen[uuid].get(share.owner, NOTHING)
            self._unaccounted.add(
                share.owner,
                uuid,
                seen_bytes=sight.memory_bytes,
                charged_bytes=charged.get(uuid, 0),
            )
            key = share.owner, uuid
            self._counted[key] = self._counted[key].plus(sight.busy_ns, self._ahead_ns(key, sight))
            self._escapes.look_at(share, sight.pids)

    def _ahead_ns(self, key: tuple[Owner, str], sight: ContainerSample) -> int:
        """Return a container's GPU time since the driver's windows ended."""
        end_ns = self._clock_ns() - sight.lag_ns
        claimed_ns = self._claims.since_change(*key, begin_ns=end_ns - sight.span_ns, end_ns=end_ns)
        return sight.ahead_ns if claimed_ns is None else claimed_ns

    def _publish(self, wanted: Collection[Share], wishes: burst_policy.Wishes) -> None:
        for share in wanted:
            cards = tuple(self._card(share, uuid, wishes) for uuid in share.uuids)
            page = Activity(sampled_ns=self._clock_ns(), cards=cards)
            try:
                mapped.publish_activity(share.folder / "activity", page)
            except (OSError, LayoutError) as error:
                # The folder goes with its pod, at any moment.
                logger.debug("page is not published share=%s: %s", share.full_name, error)

    def _card(self, share: Share, uuid: str, wishes: burst_policy.Wishes) -> CardActivity:
        allowed = burst_policy.allowed(share, uuid, wishes)
        self._claims.note_burst(share.owner, uuid, allowed=allowed, now_ns=self._clock_ns())
        return CardActivity(
            uuid=uuid,
            tenants_wanting=len(wishes[uuid]),
            burst_allowed=allowed,
            unaccounted_bytes=self._unaccounted.bytes_of(share.owner, uuid),
            busy_ns=self._counted[share.owner, uuid].told_ns,
        )
