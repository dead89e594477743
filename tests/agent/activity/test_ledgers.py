"""A ledger is read as far as it has changed, and no change is missed."""

import fcntl
import os
import pathlib
import struct
from collections.abc import Iterator

import pytest

from gpustack.adapters import mapped
from gpustack.agent.activity.ledgers import Ledgers
from gpustack.agent.activity.shares import Share
from gpustack.wire.mapped import ledger
from gpustack.wire.mapped.two_slot_page import LayoutError
from tests import open_files

_CARDS = ("GPU-00000000-0000-0000-0000-000000000001", "GPU-00000000-0000-0000-0000-000000000002")
_FLOCK = struct.Struct("hh4xqqi4x")  # struct flock of 64-bit Linux
_SECOND_NS = 1_000_000_000


class _Hooked:
    """A container with its ledger, its processes, and the agent's readings."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.now_ns = 100 * _SECOND_NS
        self.path = folder / "ledger"
        mapped.create_ledger(self.path, _CARDS)
        self.files: list[int] = []
        self.share = Share(
            owner=("uid", "c0"),
            namespace="team",
            pod="p",
            uuids=_CARDS,
            elastic=frozenset(_CARDS),
            memory_bytes=1 << 30,
            folder=folder,
        )
        self.ledgers = Ledgers(lambda: self.now_ns)

    def start(self, slot: int) -> int:
        """Start a process with a slot; return its descriptor."""
        file = os.open(self.path, os.O_RDWR)
        self.files.append(file)
        offset = ledger.slot_offset(slot)
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, 0, offset, 1, 0))
        os.pwrite(file, ledger.SLOT_HEADER.pack(0, 7, 0, 0), offset)
        return file

    def charge(self, file: int, slot: int, units: int) -> None:
        """Charge units of 256 bytes of the second card, as hook/src/shared/ledger.c does."""
        place = ledger.CARDS_OFFSET + ledger.CARD.size + 16
        os.pwrite(file, struct.pack("<Q", units | slot << 36 | 1 << 44), place)
        os.pwrite(file, struct.pack("<Q", units | 1 << 36), self._entry(slot))

    def launch(self, file: int, slot: int, *, credit_ns: int = 80_000_000) -> None:
        """Launch on the second card; the time that is paid for moves as in hook/.../bucket.c."""
        place = ledger.CARDS_OFFSET + ledger.CARD.size + 24
        (paid_ns,) = struct.unpack("<Q", os.pread(file, 8, place))
        os.pwrite(file, struct.pack("<Q", max(paid_ns, self.now_ns - credit_ns)), place)
        os.pwrite(file, struct.pack("<Q", self.now_ns), self._entry(slot) + 32)

    def owe(self, file: int, seconds: int) -> None:
        """Let the container have paid for that time to come."""
        place = ledger.CARDS_OFFSET + ledger.CARD.size + 24
        os.pwrite(file, struct.pack("<Q", self.now_ns + seconds * _SECOND_NS), place)

    def glance(self) -> ledger.CardUse:
        return self.ledgers.glance(self.share).cards[1]

    def look(self) -> ledger.LedgerReading:
        return self.ledgers.look(self.share)

    def _entry(self, slot: int) -> int:
        return ledger.slot_offset(slot) + ledger.SLOT_HEADER.size + ledger.ENTRY.size


@pytest.fixture
def hooked(tmp_path: pathlib.Path) -> Iterator[_Hooked]:
    made = _Hooked(tmp_path)
    yield made
    made.ledgers.forget(frozenset())
    for file in made.files:
        os.close(file)


def test_a_launch_after_a_pause_shows_at_the_next_glance(hooked: _Hooked) -> None:
    process = hooked.start(0)
    hooked.charge(process, 0, 4)
    hooked.look()
    for credit_ns in (80_000_000, 2 * _SECOND_NS):
        hooked.now_ns += 60 * _SECOND_NS
        assert hooked.glance().last_want_ns < hooked.now_ns
        hooked.launch(process, 0, credit_ns=credit_ns)
        assert hooked.glance().last_want_ns == hooked.now_ns


def test_a_launch_on_credit_shows_though_the_head_stays(hooked: _Hooked) -> None:
    """A launch that waits moves no time: it is paid for already."""
    process = hooked.start(0)
    hooked.charge(process, 0, 4)
    hooked.owe(process, 5)
    hooked.look()
    head = hooked.path.read_bytes()[: ledger.HEAD_BYTES]
    for _ in range(7):
        hooked.now_ns += _SECOND_NS
        hooked.launch(process, 0, credit_ns=0)
        if hooked.path.read_bytes()[: ledger.HEAD_BYTES] == head:
            assert hooked.glance().last_want_ns == hooked.now_ns


def test_a_new_process_shows_at_the_glance_after_its_first_charge(hooked: _Hooked) -> None:
    hooked.look()
    assert hooked.glance().used_bytes == 0
    process = hooked.start(137)
    hooked.charge(process, 137, 3)
    assert hooked.glance().used_bytes == 3 * ledger.UNIT_BYTES
    hooked.launch(process, 137)
    assert hooked.glance().last_want_ns == hooked.now_ns


def test_an_idle_ledger_is_read_by_its_head_alone(
    hooked: _Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooked.look()
    read: list[int] = []
    system = os.preadv

    def preadv(file: int, buffers: list[bytearray], offset: int, flags: int) -> int:
        read.append(len(buffers[0]))
        return system(file, buffers, offset, flags)

    monkeypatch.setattr(os, "preadv", preadv)
    for _ in range(20):
        hooked.now_ns += _SECOND_NS // 20
        hooked.glance()
    hooked.look()
    assert read == [ledger.HEAD_BYTES] * 21


def test_a_process_that_has_ended_is_gone_at_the_next_look(hooked: _Hooked) -> None:
    process = hooked.start(9)
    hooked.charge(process, 9, 2)
    assert [slot.index for slot in hooked.look().slots] == [9]
    os.close(hooked.files.pop())
    hooked.now_ns += _SECOND_NS
    assert hooked.look().slots == ()


def test_a_ledger_that_was_made_anew_is_opened_anew(hooked: _Hooked) -> None:
    process = hooked.start(0)
    hooked.charge(process, 0, 2)
    assert hooked.look().slots
    mapped.create_ledger(hooked.path, _CARDS)
    assert hooked.look().slots == ()
    process = hooked.start(3)
    hooked.charge(process, 3, 2)
    assert hooked.glance().used_bytes == 2 * ledger.UNIT_BYTES


@pytest.mark.parametrize("size", [0, 100, ledger.HEAD_BYTES, ledger.FILE_BYTES + 1])
def test_a_resized_ledger_is_an_error_and_its_file_is_closed(hooked: _Hooked, size: int) -> None:
    hooked.look()
    os.truncate(hooked.path, size)
    assert len(open_files.below(hooked.path.parent)) == 1
    with pytest.raises(LayoutError):
        hooked.look()
    assert open_files.below(hooked.path.parent) == []
    os.truncate(hooked.path, 0)
    mapped.create_ledger(hooked.path, _CARDS)
    assert hooked.look().slots == ()


@pytest.mark.parametrize("size", [0, ledger.HEADER.size, 100])
def test_a_ledger_that_was_short_for_a_moment_has_moved(hooked: _Hooked, size: int) -> None:
    hooked.look()
    whole = hooked.path.read_bytes()
    os.truncate(hooked.path, size)
    head = hooked.ledgers.head(hooked.share)
    hooked.path.write_bytes(whole)
    hooked.look()
    assert hooked.ledgers.moved(hooked.share, head)


def test_the_ledger_of_a_container_that_is_gone_is_closed(hooked: _Hooked) -> None:
    hooked.look()
    assert len(open_files.below(hooked.path.parent)) == 1
    hooked.ledgers.forget(frozenset())
    assert open_files.below(hooked.path.parent) == []
