"""Files of layout 1: read, changed in place and never rewritten in another layout."""

import fcntl
import os
import pathlib
import shutil
import struct
from collections.abc import Callable
from typing import Any

import pytest

from gpustack.adapters import mapped
from gpustack.wire.mapped import activity, ledger, limits, two_slot_page

# Made by an agent and a hook of layout 1; the ledger's process has died.
LAYOUT_1 = pathlib.Path(__file__).parents[2] / "data" / "mapped" / "layout-1"
A = "GPU-5d7c1b0a-8a39-4c1e-9d52-0e1f6b2a7c90"
READ: dict[str, Callable[[pathlib.Path], Any]] = {
    "limits": mapped.read_limits,
    "activity": mapped.read_activity,
    "ledger": mapped.read_ledger,
}
LIMITS = limits.Limits(
    devices=(
        limits.DeviceLimit(
            uuid=A,
            memory_bytes=2 << 30,
            compute_percent=30,
            burst_percent=60,
            context_bytes=64 << 20,
        ),
    )
)
CARD = activity.CardActivity(
    uuid=A, tenants_wanting=2, burst_allowed=True, unaccounted_bytes=16 << 20, busy_ns=154
)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    for name in READ:
        shutil.copy(LAYOUT_1 / f"{name}.bin", tmp_path / name)
    return tmp_path


def _lock(file: Any, slot: int) -> None:
    query = struct.pack("hh4xqqi4x", fcntl.F_WRLCK, os.SEEK_SET, ledger.slot_offset(slot), 1, 0)
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, query)


def test_files_of_layout_1_mean_what_they_meant(folder: pathlib.Path) -> None:
    assert mapped.read_limits(folder / "limits") == LIMITS
    assert mapped.read_activity(folder / "activity") == activity.Activity(
        sampled_ns=2000, cards=(CARD,)
    )
    with (folder / "ledger").open("r+b") as file:
        _lock(file, 0)
        (slot,) = mapped.read_ledger(folder / "ledger").slots
    (use,) = slot.cards
    assert (use.used_bytes, use.contexts, use.open_ns) == ((64 + 100) << 20, 1, 0)
    assert (slot.limits_generation, slot.activity_generation) == (None, None)


def test_a_change_keeps_the_layout_of_the_file(folder: pathlib.Path) -> None:
    before = {name: (folder / name).read_bytes() for name in ("limits", "activity")}
    mapped.publish_limits(folder / "limits", limits.Limits(devices=()))
    page = activity.Activity(
        sampled_ns=3000,
        cards=(activity.CardActivity(uuid=A, busy_ns=5, paid_until_ns=6, debt_ns=7),),
    )
    mapped.publish_activity(folder / "activity", page)
    assert mapped.read_limits(folder / "limits") == limits.Limits(devices=())
    assert mapped.read_activity(folder / "activity").cards == (
        activity.CardActivity(uuid=A, busy_ns=5),
    )
    for name, bytes_before in before.items():
        assert mapped.read_layout(folder / name) == 1
        assert (folder / name).read_bytes()[: two_slot_page.PUBLISHED_OFFSET] == (
            bytes_before[: two_slot_page.PUBLISHED_OFFSET]
        )


def test_files_of_layout_1_are_the_bytes_that_they_were(tmp_path: pathlib.Path) -> None:
    """Today's writer, asked for layout 1, writes what that of layout 1 wrote."""
    mapped.create_limits(tmp_path / "limits", LIMITS, layout=1)
    mapped.create_activity(
        tmp_path / "activity", activity.Activity(sampled_ns=2000, cards=(CARD,)), layout=1
    )
    mapped.create_ledger(tmp_path / "ledger", [A], layout=1)
    for name in ("limits", "activity"):
        made, kept = (tmp_path / name).read_bytes(), (LAYOUT_1 / f"{name}.bin").read_bytes()
        assert two_slot_page.decode_page(made[:8], made).body == (
            two_slot_page.decode_page(kept[:8], kept).body
        )
        assert made[: two_slot_page.PUBLISHED_OFFSET] == kept[: two_slot_page.PUBLISHED_OFFSET]
    made, kept = (tmp_path / "ledger").read_bytes(), (LAYOUT_1 / "ledger.bin").read_bytes()
    head = ledger.CARDS_OFFSET + 16  # the header, and the UUID of the first card
    assert (made[:head], len(made)) == (kept[:head], len(kept))


def test_what_layout_1_reserves_has_no_meaning(folder: pathlib.Path) -> None:
    """A tenant may write it into a ledger; a page is written by the agent alone."""
    with (folder / "ledger").open("r+b") as file:
        _lock(file, 0)
        os.pwrite(file.fileno(), b"\xff" * 56, ledger.slot_offset(0) + 8)
        entry = ledger.slot_offset(0) + ledger.SLOT_HEADER.size
        os.pwrite(file.fileno(), b"\xff" * 8, entry + 56)
        (slot,) = mapped.read_ledger(folder / "ledger").slots
    assert (slot.limits_generation, slot.activity_generation) == (None, None)
    assert slot.cards[0].open_ns == 0
    body = bytearray(activity.encode_body(activity.Activity(sampled_ns=1, cards=(CARD,))))
    body[48 + 40 : 48 + 64] = b"\xff" * 24
    page = two_slot_page.encode_page(activity.MAGIC, bytes(body), layout=1)
    assert activity.decode(page).cards == (CARD,)


def test_the_fields_of_layout_2_come_back(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "activity"
    cards = (activity.CardActivity(uuid=A, paid_until_ns=2**63, debt_ns=1),)
    mapped.create_activity(path, activity.Activity(sampled_ns=1, cards=cards))
    assert mapped.read_layout(path) == 2
    assert mapped.read_activity(path).cards == cards


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("layout", [0, 3, 2**32 - 1])
def test_another_layout_is_refused_by_its_number(
    folder: pathlib.Path, name: str, layout: int
) -> None:
    data = bytearray((folder / name).read_bytes())
    struct.pack_into("<I", data, 8, layout)
    (folder / name).write_bytes(data)
    newer = two_slot_page.NewerLayoutError
    with pytest.raises(two_slot_page.LayoutError, match=f"version is {layout}, .* 1 to 2") as error:
        READ[name](folder / name)
    assert isinstance(error.value, newer) == (layout > 2)
    assert mapped.read_layout(folder / name) == layout


def test_a_file_without_a_header_has_no_layout(tmp_path: pathlib.Path) -> None:
    (tmp_path / "limits").write_bytes(b"VCUDALIM\x01")
    with pytest.raises(two_slot_page.LayoutError, match="9 bytes"):
        mapped.read_layout(tmp_path / "limits")
