"""The ledgers of shares, each read as far as it has changed.

A ledger has 276 KiB, and is looked at twenty times a second while a neighbour may burst. Its first
kilobyte shows whether anything else may have changed (`ledger.changed`), and which processes wrote
to it once; the rest is read when it says so.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Final

from gpustack.adapters import mapped
from gpustack.agent.activity.shares import Share
from gpustack.agent.identification.process_owners import Owner
from gpustack.wire.mapped.ledger import LedgerChange, LedgerReading, changed
from gpustack.wire.mapped.two_slot_page import LayoutError

# Descriptors that are kept, of those that roles/gpustack_agent allows (LimitNOFILE). The ledgers
# beyond are opened for each look.
_MOST_KEPT: Final = 256


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
    """

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._known: dict[Owner, _Known] = {}
        self._kept = 0

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
