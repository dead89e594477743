"""Memory judged: what the driver sees of each share, beside what its ledger says.

The ledger is looked at before the driver is asked and after: only a ledger that stands still in
between says what the driver should have seen.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from gpustack.adapters import process
from gpustack.agent.activity.isolation_violations import IsolationViolations
from gpustack.agent.activity.ledgers import Ledgers
from gpustack.agent.activity.nvml_usage import NOTHING, ContainerSample
from gpustack.agent.activity.shares import Share
from gpustack.agent.activity.unaccounted import MemorySample, UnaccountedMemory
from gpustack.agent.identification.process_owners import Owner
from gpustack.wire.mapped.ledger import LedgerReading

# Modules and the driver's own memory come after the hook's grants, which leave them no room: a
# sixteenth of the share, or this much.
_LEAST_ROOM_BYTES: Final = 256 << 20
_ROOM_PART: Final = 16


class MemoryJudge(UnaccountedMemory):
    """Takes a sample of every share at each look, and reports what stays above a share.

    Args:
        files: the ledgers.
        escapes: reports.
        has_memory: whether a process, by its host PID, has its memory still.
    """

    def __init__(
        self,
        files: Ledgers,
        escapes: IsolationViolations,
        has_memory: Callable[[int], bool] = process.has_memory,
    ) -> None:
        super().__init__()
        self._has_memory = has_memory
        self._files = files
        self._escapes = escapes
        self._heads: dict[Owner, bytes | None] = {}

    def begin_look(self, shares: Iterable[Share]) -> None:
        """Look at the ledgers, right before the driver is asked."""
        self._heads = {share.owner: self._files.head(share) for share in shares}

    def take(
        self,
        shares: Iterable[Share],
        seen: Mapping[str, Mapping[Owner, ContainerSample]],
        read: Mapping[Owner, LedgerReading],
    ) -> None:
        """Take over what the driver has seen, by card, and the ledgers read after that."""
        for share in shares:
            ledger = read.get(share.owner)
            moved = ledger is not None and self._files.moved(share, self._heads[share.owner])
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
            self._escapes.processes_are_uncounted(share, uuid, uncounted)
        above_bytes = self.above_bytes_of(share.owner, uuid)
        if above_bytes > max(_LEAST_ROOM_BYTES, share.memory_bytes // _ROOM_PART):
            self._escapes.memory_is_above(share, uuid, above_bytes)
