"""The mapped files: values survive the way there and back, and a dead writer harms no reader."""

import fcntl
import os
import pathlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.adapters import mapped
from gpustack.wire.mapped import activity, ledger, limits, two_slot_page

A = "GPU-00000000-0000-0000-0000-00000000000a"
B = "GPU-00000000-0000-0000-0000-00000000000b"


def share(uuid: str, memory_bytes: int = 1 << 30) -> limits.DeviceLimit:
    return limits.DeviceLimit(
        uuid=uuid,
        memory_bytes=memory_bytes,
        compute_percent=30,
        burst_percent=60,
        context_bytes=64 << 20,
    )


@given(
    st.integers(1, 2**62),
    st.tuples(st.integers(1, 100), st.integers(1, 100)),
    st.sampled_from(limits.OnError),
)
def test_limits_survive_the_round_trip(
    memory: int, percent: tuple[int, int], on_error: limits.OnError
) -> None:
    device = limits.DeviceLimit(
        uuid=A,
        memory_bytes=memory,
        compute_percent=min(percent),
        burst_percent=max(percent),
        context_bytes=memory // 2,
    )
    value = limits.Limits(devices=(device, share(B)), on_error=on_error)
    assert (
        limits.decode(two_slot_page.encode_page(limits.MAGIC, limits.encode_body(value))) == value
    )


@given(st.binary(min_size=16, max_size=16))
def test_a_uuid_survives_the_round_trip(value: bytes) -> None:
    assert two_slot_page.uuid_to_bytes(two_slot_page.uuid_from_bytes(value)) == value


@given(st.binary(max_size=5000))
def test_noise_is_refused_and_never_crashes(noise: bytes) -> None:
    for decode in (limits.decode, activity.decode):
        with pytest.raises(two_slot_page.LayoutError):
            decode(noise)
    with pytest.raises(two_slot_page.LayoutError):
        ledger.decode(noise, alive=range(256))


def test_a_live_change_goes_to_the_idle_slot_and_flips_one_byte(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "limits"
    mapped.create_limits(path, limits.Limits(devices=(share(A),)))
    inode = path.stat().st_ino
    before = path.read_bytes()
    changed = limits.Limits(devices=(share(A, memory_bytes=2 << 30),))
    mapped.publish_limits(path, changed)
    after = path.read_bytes()
    first = slice(two_slot_page.slot_offset(0), two_slot_page.slot_offset(1))
    assert mapped.read_limits(path) == changed
    assert path.stat().st_ino == inode
    assert after[first] == before[first]
    assert after[two_slot_page.PUBLISHED_OFFSET] == 1
    mapped.publish_limits(path, limits.Limits(devices=()))
    assert two_slot_page.decode_page(limits.MAGIC, path.read_bytes()).generation == 3


def test_a_writer_that_dies_before_publishing_leaves_the_last_limits(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "limits"
    value = limits.Limits(devices=(share(A),))
    mapped.create_limits(path, value)
    data = bytearray(path.read_bytes())
    data[two_slot_page.slot_offset(1) : two_slot_page.slot_offset(1) + 100] = b"\xff" * 100
    path.write_bytes(data)
    assert mapped.read_limits(path) == value
    mapped.publish_limits(path, limits.Limits(devices=()))
    assert mapped.read_limits(path) == limits.Limits(devices=())


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (0, b"X", "magic"),
        (8, b"\x03", "layout version is 3, this program reads 1 to 2"),
        (16, b"\0\0", "slots of 0 bytes"),
        (20, b"\x02", "slot 2 published"),
        (64 + 16, b"\xff", "torn"),
    ],
)
def test_a_damaged_limits_file_is_refused_with_what_is_wrong(
    tmp_path: pathlib.Path, offset: int, value: bytes, message: str
) -> None:
    path = tmp_path / "limits"
    mapped.create_limits(path, limits.Limits(devices=(share(A),)))
    data = bytearray(path.read_bytes())
    data[offset : offset + len(value)] = value
    path.write_bytes(data)
    with pytest.raises(two_slot_page.LayoutError, match=message):
        mapped.read_limits(path)


@pytest.mark.parametrize("uuid", ["GPU-0", "", "0a" * 16, "GPU-" + "g" * 32, A + "00"])
def test_a_card_without_a_proper_uuid_is_refused(uuid: str) -> None:
    with pytest.raises(two_slot_page.LayoutError, match="32 hexadecimal digits"):
        limits.encode_body(limits.Limits(devices=(share(uuid),)))


def test_limits_name_a_card_once_and_sixteen_at_most() -> None:
    with pytest.raises(two_slot_page.LayoutError, match="given twice"):
        limits.Limits(devices=(share(A), share(A)))
    many = [two_slot_page.uuid_from_bytes(bytes([1] * 15 + [n])) for n in range(17)]
    with pytest.raises(two_slot_page.LayoutError, match="at most 16"):
        limits.Limits(devices=tuple(share(uuid) for uuid in many))


def test_a_share_of_compute_lies_between_one_and_its_ceiling() -> None:
    with pytest.raises(two_slot_page.LayoutError, match="1 <= compute <= burst <= 100"):
        limits.DeviceLimit(
            uuid=A, memory_bytes=1, compute_percent=50, burst_percent=40, context_bytes=0
        )


def test_activity_is_published_like_limits(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "activity"
    mapped.create_activity(path, activity.Activity(sampled_ns=0, cards=()))
    card = activity.CardActivity(uuid=A, unaccounted_bytes=5 << 20)
    mapped.publish_activity(path, activity.Activity(sampled_ns=7, cards=(card,)))
    assert mapped.read_activity(path) == activity.Activity(sampled_ns=7, cards=(card,))
    with pytest.raises(two_slot_page.LayoutError, match="magic"):
        mapped.publish_limits(path, limits.Limits(devices=()))


def test_a_ledger_is_whole_and_writable_by_any_user(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger"
    mapped.create_ledger(path, [A, B])
    status = path.stat()
    assert status.st_mode & 0o777 == 0o666
    assert status.st_size == ledger.FILE_BYTES
    assert status.st_blocks * 512 >= ledger.FILE_BYTES
    empty = (ledger.CardUse(uuid=A), ledger.CardUse(uuid=B))
    assert mapped.read_ledger(path) == ledger.LedgerReading(cards=empty, slots=(), sums=(0, 0))


def test_a_slot_counts_only_while_its_lock_is_held(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger"
    mapped.create_ledger(path, [A])
    with path.open("r+b") as file:
        for slot in (0, 7):
            start = ledger.slot_offset(slot) + ledger.SLOT_HEADER.size
            os.pwrite(file.fileno(), (slot + 1).to_bytes(8, "little"), start)
        query = struct.pack("hh4xqqi4x", fcntl.F_WRLCK, os.SEEK_SET, ledger.slot_offset(7), 1, 0)
        fcntl.fcntl(file.fileno(), fcntl.F_OFD_SETLK, query)
        reading = mapped.read_ledger(path)
    assert [slot.index for slot in reading.slots] == [7]
    assert reading.cards[0].used_bytes == 8 * ledger.UNIT_BYTES
    assert mapped.read_ledger(path).slots == ()


@pytest.mark.parametrize("size", [0, 10, 64, 4096, ledger.FILE_BYTES - 1, ledger.FILE_BYTES + 1])
def test_a_ledger_of_another_size_is_refused(tmp_path: pathlib.Path, size: int) -> None:
    path = tmp_path / "ledger"
    mapped.create_ledger(path, [A])
    os.truncate(path, size)
    with pytest.raises(two_slot_page.LayoutError):
        mapped.read_ledger(path)
