"""Memory judged: what the driver sees of each share, beside what its ledger says.

The ledger is looked at before the driver is asked and after: only a ledger that stands still in
between says what the driver should have seen.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from gpustack.adapters import process
from gpustack.agent.activity.ledgers import Ledgers
from gpustack.agent.activity.nvml_usage import NOTHING, ContainerSample
from gpustack.agent.activity.shares import Share
from gpustack.agent.activity.strangers import AGAIN_LOOKS
from gpustack.agent.activity.unaccounted import (
    NO_SAMPLES,
    MemorySample,
    UnaccountedMemory,
    lasting,
)
from gpustack.agent.identification.process_owners import Owner
from gpustack.agent.violations.isolation_violations import IsolationViolations
from gpustack.wire.mapped.ledger import LedgerReading

# Modules and the driver's own memory come after the hook's grants, which leave them no room: a
# sixteenth of the share, or this much.
_LEAST_ROOM_BYTES: Final = 256 << 20
_ROOM_PART: Final = 16
# The driver's own beside its reserve, and what it shows for no process: less on an idle card.
_LEAST_UNOWNED_BYTES: Final = 512 << 20


class MemoryJudge(UnaccountedMemory):
    """Takes a sample of every share at each look, and reports what stays above a share.

    Args:
        escapes: reports.
        tell_unowned: takes a card with memory of no process, and its bytes; again while it lasts.
        tell_stranger: takes a card, a container, and what that has of it, the two in words.
        has_memory: whether a process, by its host PID, has its memory still.

    Attributes:
        escapes, tell_stranger: as they were given.
        unowned_bytes: memory that the driver shows for no process, by card with shares.
    """

    def __init__(
        self,
        escapes: IsolationViolations,
        *,
        tell_unowned: Callable[[str, int], None],
        tell_stranger: Callable[[str, str, str], None],
        has_memory: Callable[[int], bool] = process.has_memory,
    ) -> None:
        super().__init__()
        self._has_memory = has_memory
        self.escapes = escapes
        self._tell_unowned = tell_unowned
        self.tell_stranger = tell_stranger
        self._told: dict[str, tuple[int, int]] = {}  # by card: bytes, and looks since
        self._unowned: dict[str, tuple[int, ...]] = {}
        self.unowned_bytes: Mapping[str, int] = {}  # replaced, for another thread reads it
        self._heads: dict[Owner, bytes | None] = {}

    def begin_look(self, shares: Iterable[Share], files: Ledgers) -> None:
        """Look at the ledgers, right before the driver is asked."""
        self._heads = {share.owner: files.head(share) for share in shares}

    def take(
        self,
        shares: Iterable[Share],
        seen: Mapping[str, Mapping[Owner, ContainerSample]],
        read: Mapping[Owner, LedgerReading],
        files: Ledgers,
    ) -> None:
        """Take over what the driver has seen, by card, and what was read of `files` after that."""
        for share in shares:
            ledger = read.get(share.owner)
            moved = ledger is not None and files.moved(share, self._heads[share.owner])
            for uuid in share.uuids:
                if uuid in seen:  # a silent card has no samples
                    sight = seen[uuid].get(share.owner, NOTHING)
                    sample = MemorySample(
                        seen_bytes=sight.memory_bytes,
                        charged_bytes=0 if ledger is None else ledger.charged_bytes(uuid),
                        share_bytes=share.memory_bytes,
                        moved=moved,
                        uncounted=self._uncounted(sight.pids, ledger, uuid),
                    )
                    self.add(share.owner, uuid, sample)
                    self._report(share, uuid)

    def take_unowned(self, seen: Mapping[str, int]) -> None:
        """Take over what the driver shows for no process, in bytes by card."""
        cards = {
            uuid: (*self._unowned.get(uuid, NO_SAMPLES)[1:], each) for uuid, each in seen.items()
        }
        self._unowned = cards
        self.unowned_bytes = {uuid: lasting(samples) for uuid, samples in cards.items()}
        much = {
            uuid: each for uuid, each in self.unowned_bytes.items() if each > _LEAST_UNOWNED_BYTES
        }
        before, self._told = self._told, {}
        for uuid, unowned_bytes in much.items():
            told_bytes, looks = before.get(uuid, (0, 0))
            # At once where it has doubled: a tenant may begin with little.
            if unowned_bytes >= 2 * told_bytes or looks == AGAIN_LOOKS:
                self._tell_unowned(uuid, unowned_bytes)
                told_bytes, looks = unowned_bytes, 0
            self._told[uuid] = told_bytes, looks + 1

    def _uncounted(self, pids: Collection[int], ledger: LedgerReading | None, uuid: str) -> int:
        """Return how many of a card's processes lack a slot, which each has while it has memory.

        The hook charges a context before it is made, and the kernel keeps a slot's lock as long as
        the ledger is mapped.
        """
        if ledger is None:
            return 0
        counted = sum(
            any(use.uuid == uuid and use.used_bytes for use in slot.cards) for slot in ledger.slots
        )
        if len(pids) <= counted:
            return 0
        return max(0, sum(map(self._has_memory, pids)) - counted)

    def _report(self, share: Share, uuid: str) -> None:
        uncounted = self.uncounted_of(share.owner, uuid)
        if uncounted:
            self.escapes.processes_are_uncounted(share, uuid, uncounted)
        above_bytes = self.above_bytes_of(share.owner, uuid)
        if above_bytes > max(_LEAST_ROOM_BYTES, share.memory_bytes // _ROOM_PART):
            self.escapes.memory_is_above(share, uuid, above_bytes)
