"""The ledger: a container's own accounting, written by its processes and only read here.

A tenant can write anything into it and may truncate it, so no value in it is a limit, and a reading
is what the container *says* of itself. A slot counts only while a process holds the lock on its
first byte; the kernel names the holders (``gpustack.adapters.mapped``).

Source of truth: ``hook/include/vcuda_layout.h``, ``struct vcuda_ledger_file``.
"""

import dataclasses
import enum
import itertools
import struct
from collections.abc import Container, Mapping, Sequence

from gpustack.wire.mapped import two_slot_page

MAGIC = b"VCUDALED"
SLOTS = 256
FILE_BYTES = 69 * 4096
UNIT_BYTES = 256

HEADER = struct.Struct("<8sIIII40x")
CARD = struct.Struct("<16sQQQ24x")
SLOT_HEADER = struct.Struct("<IIQQ40x")
ENTRY = struct.Struct("<QqQQQQQQ")
SLOT_BYTES = SLOT_HEADER.size + two_slot_page.MAX_CARDS * ENTRY.size
CARDS_OFFSET = HEADER.size
SLOTS_OFFSET = CARDS_OFFSET + two_slot_page.MAX_CARDS * CARD.size
HEAD_BYTES = SLOTS_OFFSET  # header and cards, which each change of a slot's use changes, too

_UNITS_BITS, _SLOT_BITS = 36, 8
_UNITS_MASK = (1 << _UNITS_BITS) - 1
_SEQUENCE_MASK = (1 << 20) - 1
_NO_CARD = bytes(16)
_EMPTY_SLOT = bytes(SLOT_BYTES)
_BLOCK_SLOTS = 16
_EMPTY_BLOCK = bytes(_BLOCK_SLOTS * SLOT_BYTES)
# Each launch moves its card's paid_until_ns up to 2 s before now at least
# (hook/src/limiter/limiter_card.c CREDIT_MAX_NS); another second is for readers that come late.
_LAUNCH_NS = 3_000_000_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CardUse:
    """The usage of one card by one process, or by all of a container's processes.

    Attributes:
        uuid: as NVML spells it.
        used_bytes: device memory charged, contexts included.
        contexts: CUDA contexts charged.
        busy_ns: GPU time.
        measured_ns: a container's, not corrected by the agent's count; else ``busy_ns``.
        last_want_ns: CLOCK_MONOTONIC of the last launch, 0 for none; the latest of all processes.
        denied: requests refused.
        throttled_ns: time that launches were held back.
        open_ns: GPU time that launches under way may take beyond their charge. Layout 2.
    """

    uuid: str
    used_bytes: int = 0
    contexts: int = 0
    busy_ns: int = 0
    measured_ns: int = 0
    last_want_ns: int = 0
    denied: int = 0
    throttled_ns: int = 0
    open_ns: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlotUse:
    """One living process.

    Attributes:
        index: its slot.
        pid: the PID that it says it has, in its namespace.
        cards: its use of each card.
        limits_generation: of the limits that it has applied; 0 before the first, None in layout 1.
        activity_generation: of the activity page, likewise.
    """

    index: int
    pid: int
    cards: tuple[CardUse, ...]
    limits_generation: int | None = None
    activity_generation: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LedgerReading:
    """A reading.

    Attributes:
        cards: the sums over ``slots``, in the order of creation.
        slots: of the living processes.
        sums: what the ledger's own sum says of each card, in bytes; processes that have ended
            may still count in it.
        false_sums: the cards whose sum isn't that of all slots: the container wrote over one.
    """

    cards: tuple[CardUse, ...]
    slots: tuple[SlotUse, ...]
    sums: tuple[int, ...] = ()
    false_sums: tuple[str, ...] = ()

    def charged_bytes(self, uuid: str) -> int:
        """Return what sum and slots both say of a card; 0 where it isn't among them."""
        pairs = zip(self.cards, self.sums, strict=True)
        return next((min(use.used_bytes, total) for use, total in pairs if use.uuid == uuid), 0)


def encode(uuids: Sequence[str], layout: int = two_slot_page.LAYOUT_VERSION) -> bytes:
    """Return a new ledger's first bytes; the rest of its ``FILE_BYTES`` is zero.

    Raises:
        LayoutError: more than 16 cards, one of them twice, or a UUID that isn't one.
    """
    two_slot_page.check_cards(uuids)
    header = HEADER.pack(MAGIC, layout, FILE_BYTES, SLOTS, SLOT_BYTES)
    values = map(two_slot_page.uuid_to_bytes, uuids)
    return header + b"".join(CARD.pack(value, 0, 0, 0) for value in values)


def used_slots(data: bytes) -> tuple[int, ...]:
    """Return the numbers of used slots: only their locks are looked up in the kernel."""
    return tuple(
        index
        for first in range(0, SLOTS, _BLOCK_SLOTS)
        if data[slot_offset(first) : slot_offset(first + _BLOCK_SLOTS)] != _EMPTY_BLOCK
        for index in range(first, first + _BLOCK_SLOTS)
        if data[slot_offset(index) : slot_offset(index) + SLOT_BYTES] != _EMPTY_SLOT
    )


class LedgerChange(enum.Enum):
    """What may have changed in a ledger since its head was read before."""

    NOTHING = enum.auto()  # no launch and no charge since; processes may have ended
    TIMES = enum.auto()  # launches of processes whose slots are known
    ANYTHING = enum.auto()  # charges, by a process with a new slot perhaps


def changed(before: bytes, head: bytes, now_ns: int) -> LedgerChange:
    """Compare a ledger's first ``HEAD_BYTES`` with those of an earlier reading.

    A process charges its context to the head's sums before its first launch, and each launch moves
    the time up to which the container has paid: to no earlier than two seconds before.

    Args:
        before: of the reading before, at most a second earlier.
        head: as they are now.
        now_ns: CLOCK_MONOTONIC.
    """
    if len(head) < HEAD_BYTES or before[: HEADER.size] != head[: HEADER.size]:
        return LedgerChange.ANYTHING
    launched = False
    for offset in range(CARDS_OFFSET, HEAD_BYTES, CARD.size):
        uuid, total, paid_until_ns, _ = CARD.unpack_from(head, offset)
        if (uuid, total) != CARD.unpack_from(before, offset)[:2]:
            return LedgerChange.ANYTHING
        if uuid == _NO_CARD:
            break
        same = head[offset : offset + CARD.size] == before[offset : offset + CARD.size]
        launched = launched or not same or paid_until_ns > now_ns - _LAUNCH_NS
    return LedgerChange.TIMES if launched else LedgerChange.NOTHING


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
    return decode_slots(
        data,
        {
            index: data[slot_offset(index) : slot_offset(index) + SLOT_BYTES]
            for index in used_slots(data)
            if index in alive
        },
    )


def decode_slots(head: bytes, living: Mapping[int, bytes]) -> LedgerReading:
    """Return the usage in a ledger's living slots.

    Args:
        head: the file's first ``HEAD_BYTES``, or more of them.
        living: by number, all of the slot's bytes.
    """
    _, version, *_ = HEADER.unpack_from(head)
    found = _cards(head)
    uuids = [uuid for uuid, _, _ in found]
    slots = tuple(_decode_slot(data, index, uuids, version) for index, data in living.items())
    cards = tuple(
        _sum(uuid, [slot.cards[card] for slot in slots], measured_ns)
        for card, (uuid, _, measured_ns) in enumerate(found)
    )
    sums = tuple((total & _UNITS_MASK) * UNIT_BYTES for _, total, _ in found)
    return LedgerReading(cards=cards, slots=slots, sums=sums)


def false_sums(data: bytes, later: bytes, slots: Sequence[int]) -> tuple[str, ...]:
    """Return the cards whose sum isn't that of their slots, as the hook's operations leave it.

    Each of them changes the sum first. So the slots are those of a sum that is the same before and
    after they are read, once the operation that it names has reached its slot.

    Args:
        data: the whole file.
        later: its first ``HEAD_BYTES``, read after it.
        slots: the numbers of the slots that aren't empty.
    """
    return tuple(
        uuid
        for card, (uuid, total, _) in enumerate(_cards(data))
        if _total(later, card) == total and _sum_is_false(data, total, slots, card)
    )


def _sum_is_false(data: bytes, total: int, slots: Sequence[int], card: int) -> bool:
    def used(slot: int) -> int:
        place = slot_offset(slot) + SLOT_HEADER.size + card * ENTRY.size
        return int(ENTRY.unpack_from(data, place)[0])

    behind = used(total >> _UNITS_BITS & SLOTS - 1) >> _UNITS_BITS
    if (behind + 1) & _SEQUENCE_MASK == total >> _UNITS_BITS + _SLOT_BITS:
        return False  # it has yet to reach the slot
    return sum(used(slot) & _UNITS_MASK for slot in slots) != total & _UNITS_MASK


def _total(data: bytes, card: int) -> int:
    return int(CARD.unpack_from(data, CARDS_OFFSET + card * CARD.size)[1])


def _cards(data: bytes) -> list[tuple[str, int, int]]:
    """Return UUID, sum and measured time of the cards in order; an empty record ends them."""
    records = CARD.iter_unpack(data[CARDS_OFFSET:SLOTS_OFFSET])
    used = itertools.takewhile(lambda each: each[0] != _NO_CARD, records)
    return [(two_slot_page.uuid_from_bytes(each[0]), each[1], each[3]) for each in used]


def _decode_slot(data: bytes, index: int, uuids: Sequence[str], layout: int) -> SlotUse:
    _, pid, *generations = SLOT_HEADER.unpack_from(data)
    limits_generation, activity_generation = generations if layout > 1 else (None, None)
    return SlotUse(
        index=index,
        pid=pid,
        cards=tuple(
            _decode_entry(data, SLOT_HEADER.size + position * ENTRY.size, uuid, layout)
            for position, uuid in enumerate(uuids)
        ),
        limits_generation=limits_generation,
        activity_generation=activity_generation,
    )


def _decode_entry(data: bytes, offset: int, uuid: str, layout: int) -> CardUse:
    used, _, contexts, busy_ns, last_want_ns, denied, *times = ENTRY.unpack_from(data, offset)
    throttled_ns, open_ns = times
    return CardUse(
        uuid=uuid,
        used_bytes=(used & _UNITS_MASK) * UNIT_BYTES,
        contexts=contexts,
        busy_ns=busy_ns,
        last_want_ns=last_want_ns,
        denied=denied,
        throttled_ns=throttled_ns,
        open_ns=open_ns if layout > 1 else 0,
    )


def _sum(uuid: str, uses: Sequence[CardUse], measured_ns: int) -> CardUse:
    busy_ns = sum(use.busy_ns for use in uses)
    return CardUse(
        uuid=uuid,
        used_bytes=sum(use.used_bytes for use in uses),
        contexts=sum(use.contexts for use in uses),
        busy_ns=busy_ns,
        measured_ns=measured_ns or busy_ns,
        last_want_ns=max((use.last_want_ns for use in uses), default=0),
        denied=sum(use.denied for use in uses),
        throttled_ns=sum(use.throttled_ns for use in uses),
        open_ns=sum(use.open_ns for use in uses),
    )
