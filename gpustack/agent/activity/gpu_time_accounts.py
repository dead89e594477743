"""The agent's own account of the GPU time of each container, beside the ledger's.

A ledger says what its container's processes say, and a process that ends early, or writes into it,
says less. This account is fed by the driver, and no tenant reaches it. It is a leaky bucket: GPU
time fills it, and the container's ceiling and some points drain it. What it holds beyond its depth
is a debt, and launches wait until that is paid, by the page (`hook/src/limiter/limiter.c`).

Launches wait for the later of the ledger's word and this one, so that no time is paid for twice.
A container that keeps to its share never fills the bucket: the points are more than the hook errs
by, and the depth is more than its errors of some seconds add up to. One that came into debt gets
the card in slices until its bucket is empty, and each is taken for used up: the driver's count
comes too late to keep a neighbour's share from second to second. A debt is paid by half of the
ceiling, for kernels that are longer than a slice take more than it.
"""

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from gpustack.agent.activity.nvml_usage import NOTHING, ContainerSample, NvmlUsage
from gpustack.agent.activity.share_figures import ShareFigures
from gpustack.agent.activity.shares import Share
from gpustack.agent.identification.process_owners import Owner
from gpustack.wire.mapped.activity import CardActivity

POINTS: Final = 3
# What is taken before the driver's count shows it comes on top: a second, and the kernels queued.
DEPTH_NS: Final = 3_000_000_000
_DEBT_PARTS: Final = 2  # of a ceiling, one drains a debt
_SLICE_NS: Final = 50_000_000  # a look at the ledgers is as far from the next
# A ceiling that falls holds for so much longer: hooks read the page, and queued work ends.
_FALL_NS: Final = 250_000_000
# Launches wait no longer at a time; what is left stays in the bucket.
_WAIT_NS: Final = 60_000_000_000
# Of a sum, from look to look: as hooks weigh both counts (`hook/src/limiter/limiter_audit.c`).
_KEPT: Final = 0.9
# No hook measures so much more than the truth: it takes no count for less (FACTOR_MAX there).
_MEASURED_MOST: Final = 8
# A tenant may claim any time, but no card works longer than time passes: so long a kernel's time
# may wait for its end.
_MOST_NS: Final = 10_000_000_000


@dataclasses.dataclass(slots=True, kw_only=True)
class _Account:
    """One container on one card.

    Attributes:
        at_ns: up to when time has been drained (CLOCK_MONOTONIC).
        known_ns: GPU time in the driver's windows that are over.
        told_ns: the published value, up to now. Hooks compare it with their charges up to
            now: without the windows' lag, a burst that ends would look like a debt.
        level_ns: GPU time in the bucket.
        measured_ns: GPU time that its hooks have measured, at the last look.
        claimed_ns: of that, since the look before.
        looked_ns: when that was (CLOCK_MONOTONIC).
        room_ns: time that has passed and isn't claimed.
        claims_ns: the sum of `claimed_ns`, of which a look weighs nine tenths of the next.
        counts_ns: the same sum of the driver's counts.
        beliefs_ns: the same sum of what of them is believed.
        pays: whether it has been in debt, and the bucket hasn't been empty since.
        ceilings: percentages, each with the time since when it holds.
        paid_until_ns: launches wait until then.
        debt_ns: GPU time beyond the depth, at the last look.
    """

    at_ns: int
    known_ns: int = 0
    told_ns: int = 0
    level_ns: int = 0
    measured_ns: int = 0
    claimed_ns: int = 0
    looked_ns: int = 0
    room_ns: int = 0
    claims_ns: float = 0
    counts_ns: float = 0
    beliefs_ns: float = 0
    pays: bool = False
    ceilings: collections.deque[tuple[int, int]] = dataclasses.field(
        default_factory=collections.deque
    )
    paid_until_ns: int = 0
    debt_ns: int = 0

    def note(self, counted_ns: int, measured_ns: int, now_ns: int) -> None:
        """Take what the driver has counted since the last look, and what hooks measured so far."""
        self.room_ns = min(self.room_ns + now_ns - self.looked_ns, _MOST_NS)
        self.claimed_ns = min(max(0, measured_ns - self.measured_ns), self.room_ns)
        self.room_ns -= self.claimed_ns
        self.measured_ns, self.looked_ns = measured_ns, now_ns
        self.counts_ns = self.counts_ns * _KEPT + counted_ns
        self.claims_ns = self.claims_ns * _KEPT + self.claimed_ns

    def believed_ns(self, unexplained_ns: float) -> int:
        """Return the driver's count since the last look, as far as ledgers leave room for it.

        Args:
            unexplained_ns: of the card, what all counts are beyond all claims: the sums.
        """
        # Of one that is on the card whenever no sample is taken the driver counts nothing.
        is_seen = self.counts_ns * _MEASURED_MOST >= self.claims_ns
        least_ns = self.claims_ns + min(0, unexplained_ns) * is_seen
        most_ns = self.claims_ns + max(0, unexplained_ns)
        before_ns = self.beliefs_ns * _KEPT
        self.beliefs_ns = max(before_ns, min(max(self.counts_ns, least_ns), most_ns))
        return int(self.beliefs_ns - before_ns)

    def add(self, used_ns: int, until_ns: int) -> None:
        """Fill in GPU time up to a moment, and drain it up to then."""
        drained_ns = self._drained_ns(until_ns)
        self.level_ns = max(0, self.level_ns + used_ns - drained_ns)
        self.at_ns = max(self.at_ns, until_ns)
        while len(self.ceilings) > 1 and self.ceilings[1][0] <= self.at_ns:
            self.ceilings.popleft()
        self.debt_ns = max(0, self.level_ns - DEPTH_NS)
        self.pays = self.debt_ns > 0 or (self.pays and self.level_ns > 0)
        wait_ns = self.debt_ns * 100 * _DEBT_PARTS // self.ceilings[-1][1]
        self.paid_until_ns = max(self.paid_until_ns, self.at_ns + min(wait_ns, _WAIT_NS))

    def end_slice(self, now_ns: int) -> None:
        """Let launches of one that pays wait again, as if it had used the card since they may."""
        used_ns = min(now_ns - self.paid_until_ns, 2 * _SLICE_NS)
        if self.pays and used_ns >= _SLICE_NS // 2:
            percent = self.ceilings[-1][1]
            self.paid_until_ns = now_ns + used_ns * (100 - percent) // percent

    def set_ceiling(self, percent: int, now_ns: int) -> None:
        if self.ceilings and self.ceilings[-1][1] == percent:
            return
        while self.ceilings and self.ceilings[-1][0] > now_ns:
            self.ceilings.pop()  # a fall that was to come
        falls = bool(self.ceilings) and percent < self.ceilings[-1][1]
        self.ceilings.append((now_ns + _FALL_NS * falls, percent))

    def _drained_ns(self, until_ns: int) -> int:
        """Return what drains up to a moment; the first ceiling held before, too."""
        since = [self.at_ns, *(since_ns for since_ns, _ in tuple(self.ceilings)[1:]), until_ns]
        drained = 0
        for number, (_, percent) in enumerate(self.ceilings):
            begin_ns, end_ns = max(self.at_ns, since[number]), min(until_ns, since[number + 1])
            rate = percent if self.pays else min(100, percent + POINTS)
            drained += max(0, end_ns - begin_ns) * rate // (_DEBT_PARTS if self.debt_ns else 1)
        return drained // 100


class GpuTimeAccounts:
    """The accounts by container and card.

    Args:
        clock_ns: CLOCK_MONOTONIC, which hooks compare with.
        is_good: whether the driver is known to count what each process used. If not, launches
            don't wait for this account, and a container is believed to have used no more than its
            ledger says and the cards' unexplained time.
        collects: whether launches wait for this account where it is good.
    """

    def __init__(self, clock_ns: Callable[[], int], *, is_good: bool, collects: bool) -> None:
        self.is_good = is_good
        self.collects = is_good and collects
        self._clock_ns = clock_ns
        self._accounts: dict[tuple[Owner, str], _Account] = {}

    def knows(self, owner: Owner, uuid: str) -> bool:
        """Say whether a container's account has begun."""
        return (owner, uuid) in self._accounts

    def begin(self, owner: Owner, card: CardActivity) -> None:
        """Go on from a container's page: of a debt, the depth before it stays unpaid too.

        The page may be older than the boot, on a disk, and the clock begins anew with that.
        """
        now_ns = self._clock_ns()
        account = _Account(
            at_ns=now_ns, looked_ns=now_ns, known_ns=card.busy_ns, told_ns=card.busy_ns
        )
        if now_ns < card.paid_until_ns <= now_ns + _WAIT_NS:
            account.level_ns = DEPTH_NS + card.debt_ns
            account.paid_until_ns, account.debt_ns = card.paid_until_ns, card.debt_ns
            account.pays = True
        self._accounts[owner, card.uuid] = account

    def cards_of_debtors(self) -> set[str]:
        """Return the cards that a container gets in slices."""
        return {uuid for (_, uuid), each in self._accounts.items() if self.collects and each.pays}

    def set_ceiling(self, owner: Owner, uuid: str, percent: int) -> None:
        """Take the percentage that a container may use of a card from now on."""
        self._accounts[owner, uuid].set_ceiling(percent, self._clock_ns())

    def count(
        self,
        shares: Iterable[Share],
        seen: Mapping[str, Mapping[Owner, ContainerSample]],
        figures: ShareFigures,
        ahead_ns: Callable[[Owner, str, ContainerSample], int],
    ) -> None:
        """Count the containers' GPU time on all cards that answer, which their hooks are told.

        A driver may give one process's time to another: then its counts are wrong, but their sum
        is right. So where it isn't known to count well, a container's count is told as far as it
        makes all ledgers of the card, together, agree with all counts.

        Args:
            shares: the containers.
            seen: by card, the driver's samples.
            figures: what the ledgers say.
            ahead_ns: estimates a container's GPU time on a card since the driver's windows ended.
        """
        for uuid, sights in seen.items():
            here = [share.owner for share in shares if uuid in share.uuids]
            accounts = {owner: self._accounts[owner, uuid] for owner in here}
            for owner, account in accounts.items():
                counted_ns = sights.get(owner, NOTHING).busy_ns
                measured_ns = figures.of(owner, uuid).measured_ns
                account.note(counted_ns, measured_ns, self._clock_ns())
            unexplained_ns = sum(each.counts_ns - each.claims_ns for each in accounts.values())
            for owner, account in accounts.items():
                sight = sights.get(owner, NOTHING)
                if not self.is_good:
                    sight = sight.believed(account.believed_ns(unexplained_ns))
                account.known_ns += sight.busy_ns
                # A count of time doesn't go back.
                told_ns = account.known_ns + ahead_ns(owner, uuid, sight)
                account.told_ns = max(account.told_ns, told_ns)

    def judge(
        self,
        shares: Iterable[Share],
        seen: Mapping[str, Mapping[Owner, ContainerSample]],
        usage: NvmlUsage,
    ) -> list[Share]:
        """Fill in the driver's samples, after `count`; returns the shares in debt."""
        debtors: list[Share] = []
        for uuid, sights in seen.items():
            here = [share for share in shares if uuid in share.uuids]
            claimed_ns = sum(self._accounts[share.owner, uuid].claimed_ns for share in here)
            unexplained_ns = max(0, usage.card_busy_ns(uuid) - claimed_ns)
            for share in here:
                sight = sights.get(share.owner, NOTHING)
                # Where the driver's count is good it decides alone: any tenant of the card could
                # make the rest look explained, by a ledger that claims more than it used.
                account = self._accounts[share.owner, uuid]
                most_ns = account.claimed_ns + unexplained_ns
                used_ns = sight.busy_ns if self.is_good else min(sight.busy_ns, most_ns)
                account.add(used_ns, self._clock_ns() - sight.behind_ns)
                if account.debt_ns:
                    debtors.append(share)
        return debtors

    def page(
        self,
        owner: Owner,
        uuid: str,
        *,
        tenants_wanting: int,
        burst_allowed: bool,
        unaccounted_bytes: int,
    ) -> CardActivity:
        """Return what a container's hooks are told of a card."""
        account = self._accounts[owner, uuid]
        account.end_slice(self._clock_ns())
        waits = self.collects and account.paid_until_ns > self._clock_ns()
        return CardActivity(
            uuid=uuid,
            tenants_wanting=tenants_wanting,
            burst_allowed=burst_allowed,
            unaccounted_bytes=unaccounted_bytes,
            busy_ns=account.told_ns,
            paid_until_ns=account.paid_until_ns if waits else 0,
            debt_ns=account.debt_ns if waits else 0,
        )

    def forget(self, living: frozenset[Owner]) -> None:
        """Drop the containers that are gone."""
        self._accounts = {key: each for key, each in self._accounts.items() if key[0] in living}
