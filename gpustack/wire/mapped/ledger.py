"""The ledger: a container's own accounting, written by its processes and only read here.

A tenant can write anything into it and may truncate it, so no value in it is a limit, and a reading
is what the container *says* of itself. A slot counts only while a process holds the lock on its
first byte; the kernel names the holders (``gpustack.adapters.mapped``).

Source of truth: ``hook/include/vcuda_layout.h``, ``struct vcuda_ledger_file``.
"""

import dataclasses
import struct
from collections.abc import Container, Sequence

from gpustack.wire.mapped import two_slot_page

MAGIC = b"VCUDALED"
SLOTS = 256
FILE_BYTES = 69 * 4096
UNIT_BYTES = 256

HEADER = struct.Struct("<8sIIII40x")
CARD = struct.Struct("<16sQQ32x")
SLOT_HEADER = struct.Struct("<II56x")
ENTRY = struct.Struct("<QqQQQQQ8x")
SLOT_BYTES = SLOT_HEADER.size + two_slot_page.MAX_CARDS * ENTRY.size
CARDS_OFFSET = HEADER.size
SLOTS_OFFSET = CARDS_OFFSET + two_slot_page.MAX_CARDS * CARD.size

_UNITS_MASK = (1 << 36) - 1
_NO_CARD = bytes(16)
_EMPTY_SLOT = bytes(SLOT_BYTES)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CardUse:
    """The usage of one card by one process, or by all of a container's processes.

    Attributes:
        uuid: as NVML spells it.
        used_bytes: device memory charged, contexts included.
        contexts: CUDA contexts charged.
        busy_ns: GPU time.
        last_want_ns: CLOCK_MONOTONIC of the last launch, 0 for none; the latest of all processes.
        denied: requests refused.
        throttled_ns: time that launches were held back.
    """

    uuid: str
    used_bytes: int = 0
    contexts: int = 0
    busy_ns: int = 0
    last_want_ns: int = 0
    denied: int = 0
    throttled_ns: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlotUse:
    """One living process: its slot, the PID that it says it has, and its use of each card."""

    index: int
    pid: int
    cards: tuple[CardUse, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LedgerReading:
    """A reading: ``cards`` sums over ``slots`` and follows the order of creation."""

    cards: tuple[CardUse, ...]
    slots: tuple[SlotUse, ...]


def encode(uuids: Sequence[str]) -> bytes:
    """Return a new ledger's first bytes; the rest of its ``FILE_BYTES`` is zero.

    Raises:
        LayoutError: more than 16 cards, one of them twice, or a UUID that isn't one.
    """
    two_slot_page.check_cards(uuids)
    header = HEADER.pack(MAGIC, two_slot_page.LAYOUT_VERSION, FILE_BYTES, SLOTS, SLOT_BYTES)
    return header + b"".join(CARD.pack(two_slot_page.uuid_to_bytes(uuid), 0, 0) for uuid in uuids)


def used_slots(data: bytes) -> tuple[int, ...]:
    """Return the numbers of used slots: only their locks are looked up in the kernel."""
    return tuple(
        index
        for index in range(SLOTS)
        if data[slot_offset(index) : slot_offset(index) + SLOT_BYTES] != _EMPTY_SLOT
    )


def slot_offset(index: int) -> int:
    """Return the offset in bytes of a slot, which is also the byte that its owner locks."""
    return SLOTS_OFFSET + index * SLOT_BYTES


def decode(data: bytes, alive: Container[int]) -> LedgerReading:
    """Return the usage that the living processes of a container have written.

    Args:
        data: the whole file.
        alive: numbers of the slots whose lock is held.

    Raises:
        LayoutError: the file is short, foreign or of another version.
    """
    if len(data) < HEADER.size:
        message = f"ledger has {len(data)} bytes, its header alone has {HEADER.size}"
        raise two_slot_page.LayoutError(message)
    _, version, file_bytes, _, _ = HEADER.unpack_from(data)
    two_slot_page.check_header(data, (MAGIC, version, file_bytes), expected_bytes=FILE_BYTES)
    uuids = _card_uuids(data)
    slots = tuple(_decode_slot(data, index, uuids) for index in used_slots(data) if index in alive)
    cards = tuple(
        _sum(uuid, [slot.cards[position] for slot in slots]) for position, uuid in enumerate(uuids)
    )
    return LedgerReading(cards=cards, slots=slots)


def _card_uuids(data: bytes) -> tuple[str, ...]:
    """Return the cards in order; the first empty record ends them."""
    uuids = []
    for index in range(two_slot_page.MAX_CARDS):
        value, _, _ = CARD.unpack_from(data, CARDS_OFFSET + index * CARD.size)
        if value == _NO_CARD:
            break
        uuids.append(two_slot_page.uuid_from_bytes(value))
    return tuple(uuids)


def _decode_slot(data: bytes, index: int, uuids: Sequence[str]) -> SlotUse:
    start = slot_offset(index)
    _, pid = SLOT_HEADER.unpack_from(data, start)
    start += SLOT_HEADER.size
    return SlotUse(
        index=index,
        pid=pid,
        cards=tuple(
            _decode_entry(data, start + position * ENTRY.size, uuid)
            for position, uuid in enumerate(uuids)
        ),
    )


def _decode_entry(data: bytes, offset: int, uuid: str) -> CardUse:
    used, _, contexts, busy_ns, last_want_ns, denied, throttled_ns = ENTRY.unpack_from(data, offset)
    return CardUse(
        uuid=uuid,
        used_bytes=(used & _UNITS_MASK) * UNIT_BYTES,
        contexts=contexts,
        busy_ns=busy_ns,
        last_want_ns=last_want_ns,
        denied=denied,
        throttled_ns=throttled_ns,
    )


def _sum(uuid: str, uses: Sequence[CardUse]) -> CardUse:
    return CardUse(
        uuid=uuid,
        used_bytes=sum(use.used_bytes for use in uses),
        contexts=sum(use.contexts for use in uses),
        busy_ns=sum(use.busy_ns for use in uses),
        last_want_ns=max((use.last_want_ns for use in uses), default=0),
        denied=sum(use.denied for use in uses),
        throttled_ns=sum(use.throttled_ns for use in uses),
    )
