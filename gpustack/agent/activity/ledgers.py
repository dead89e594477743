"""The ledgers of shares, each read as far as it has changed.

A ledger has 276 KiB, and is looked at twenty times a second while a neighbour may burst. Its first
kilobyte shows whether anything else may have changed (`ledger.changed`), and which processes wrote
to it once; the rest is read when it says so.

A tenant makes the kernel take long over the locks of its ledger (gpustack.adapters.mapped), and may
have many containers. So a round of looks has a bound, and a slow ledger comes after all others.
"""

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from gpustack.adapters import mapped
from gpustack.agent.activity.shares import Share
from gpustack.agent.identification.process_owners import Owner
from gpustack.wire.mapped.ledger import LedgerChange, LedgerReading, changed
from gpustack.wire.mapped.two_slot_page import LayoutError

# Descriptors that are kept, of those that roles/gpustack_agent allows (LimitNOFILE). The ledgers
# beyond are opened for each look.
_MOST_KEPT: Final = 256

# CPU time of a round: a burst ends within 200 ms. Some hundred ledgers of ten processes fit.
_ROUND_SECONDS: Final = 0.1
# A ledger that takes longer, twice within ten minutes, is slow: one with all of its 256 processes
# takes 4 ms. Once may be Python's own collection of garbage.
_SLOW_SECONDS: Final = 0.01
_SLOW_TIMES: Final = 2
_SLOW_NS: Final = 600_000_000_000
# The slow ones' own part of a round, beside one that may always be read.
_SLOW_ROUND_SECONDS: Final = 0.02


@dataclasses.dataclass(slots=True, kw_only=True)
class _Known:
    """The last reading of a ledger.

    Attributes:
        file: device and inode; a damaged ledger is made anew, as another file.
        fd: kept open; -1 where it isn't.
        head: its first bytes at that reading.
        slots: the numbers of the slots that weren't empty.
    """

    file: tuple[int, int]
    head: bytes
    slots: tuple[int, ...]
    reading: LedgerReading
    fd: int = -1


class Ledgers:
    """Readings by container.

    Args:
        clock_ns: CLOCK_MONOTONIC, which ledgers are compared with.
        cpu_seconds: CPU time of this thread.
    """

    def __init__(
        self, clock_ns: Callable[[], int], cpu_seconds: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock_ns = clock_ns
        self._cpu_seconds = cpu_seconds
        self._known: dict[Owner, _Known] = {}
        self._kept = 0
        self._round = 0
        self._turns: dict[Owner, int] = {}  # by container: the round of its last turn
        self._slow: dict[Owner, tuple[int, int]] = {}  # by container: how often, and when last

    def turns(self, shares: Iterable[Share], *, slow: bool = True) -> Iterator[tuple[Share, bool]]:
        """Yield shares, each with whether it is its turn in this round.

        The caller reads one before it asks for the next. Those that have waited longest come first,
        and slow ones last.

        Args:
            shares: all that are to be read.
            slow: whether to yield those that are slow.
        """
        self._round += 1
        began: dict[bool, float] = {}
        for share in sorted(shares, key=self._order):
            is_slow = self._is_slow(share)
            if is_slow and not slow:
                return
            start = self._cpu_seconds()
            bound = _SLOW_ROUND_SECONDS if is_slow else _ROUND_SECONDS
            if start - began.setdefault(is_slow, start) > bound:
                yield share, False
                continue
            self._turns[share.owner] = self._round
            yield share, True
            if self._cpu_seconds() - start > _SLOW_SECONDS:
                self._slow[share.owner] = self._slow_times(share) + 1, self._clock_ns()

    def had_turn(self, share: Share) -> bool:
        """Say whether it was a share's turn in the last round."""
        return self._turns.get(share.owner) == self._round

    def _order(self, share: Share) -> tuple[bool, int]:
        return self._is_slow(share), self._turns.get(share.owner, 0)

    def _is_slow(self, share: Share) -> bool:
        return self._slow_times(share) >= _SLOW_TIMES

    def _slow_times(self, share: Share) -> int:
        times, last_ns = self._slow.get(share.owner, (0, 0))
        return times if times and self._clock_ns() - last_ns < _SLOW_NS else 0

    def look(self, share: Share) -> LedgerReading:
        """Return a share's ledger, after a look at the file itself.

        While a read would wait, that is the reading of before.

        Raises:
            BusyLedgerError: a read would wait, and there was none before.
            LayoutError: the tenant has damaged it.
            OSError: it can't be read.
        """
        path = f"{share.folder}/ledger"
        known = self._known.get(share.owner)
        if known is None or not mapped.is_whole_ledger(path, known.file):
            self._drop(share.owner)
            known = self._begin(share.owner, path)
        else:
            self._again(share.owner, known, path)
        self._keep(known, path)
        return known.reading

    def glance(self, share: Share) -> LedgerReading:
        """Return the reading of before while no process has launched anything since.

        It leaves the file itself, and the slots of new processes without a charge, to `look`, which
        has to come every second.

        Raises: as `look`.
        """
        known = self._known.get(share.owner)
        if known is None or known.fd < 0:
            return self.look(share)
        try:
            head = mapped.read_ledger_head(known.fd)
            what = changed(known.head, head, self._clock_ns())
            if what is LedgerChange.ANYTHING:
                known.reading, known.head, known.slots = mapped.read_open_ledger(known.fd)
            elif what is LedgerChange.TIMES:
                known.reading = mapped.read_ledger_slots(known.fd, head, known.slots)
                known.head = head
        except mapped.BusyLedgerError:
            pass  # a later glance reads it
        except (OSError, LayoutError):
            self._drop(share.owner)
            raise
        return known.reading

    def head(self, share: Share) -> bytes | None:
        """Return a share's first bytes as they are now; None where they can't be read."""
        path = f"{share.folder}/ledger"
        known = self._known.get(share.owner)
        try:
            with _opened(path, known.fd if known else -1) as fd:
                return mapped.read_ledger_head(fd)
        except (OSError, LayoutError):
            return None

    def moved(self, share: Share, head: bytes | None) -> bool:
        """Say whether memory may have been charged or given back between a head and `look`."""
        known = self._known.get(share.owner)
        if known is None or head is None:
            return True
        return changed(head, known.head, self._clock_ns()) is LedgerChange.ANYTHING

    def forget(self, living: frozenset[Owner]) -> None:
        """Drop the containers that are gone, and close their files."""
        for owner in self._known.keys() - living:
            self._drop(owner)
        for kept in (self._turns, self._slow):
            for owner in kept.keys() - living:
                del kept[owner]

    def _begin(self, owner: Owner, path: str) -> _Known:
        with _opened(path) as fd:
            reading, head, slots = mapped.read_open_ledger(fd)
            status = os.fstat(fd)
        file = status.st_dev, status.st_ino
        known = _Known(file=file, head=head, slots=slots, reading=reading)
        self._known[owner] = known
        return known

    def _again(self, owner: Owner, known: _Known, path: str) -> None:
        try:
            with _opened(path, known.fd) as fd:
                head = mapped.read_ledger_head(fd)
                if changed(known.head, head, self._clock_ns()) is not LedgerChange.NOTHING:
                    known.reading, known.head, known.slots = mapped.read_open_ledger(fd)
                elif known.reading.slots:  # their processes may have ended
                    known.reading = mapped.read_ledger_slots(fd, head, known.slots)
        except mapped.BusyLedgerError:
            pass  # a later look reads it
        except (OSError, LayoutError):
            self._drop(owner)
            raise

    def _keep(self, known: _Known, path: str) -> None:
        if known.fd < 0 and self._kept < _MOST_KEPT:
            known.fd, self._kept = mapped.open_ledger(path), self._kept + 1

    def _drop(self, owner: Owner) -> None:
        known = self._known.pop(owner, None)
        if known is not None and known.fd >= 0:
            os.close(known.fd)
            self._kept -= 1


@contextlib.contextmanager
def _opened(path: str, kept: int = -1) -> Iterator[int]:
    """Give the descriptor that is kept, or one for now."""
    fd = kept if kept >= 0 else mapped.open_ledger(path)
    try:
        yield fd
    finally:
        if kept < 0:
            os.close(fd)
