"""A sum that isn't that of the slots is found, and no honest operation looks like one."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from gpustack.wire.mapped import ledger

CARD = "GPU-00000000-0000-0000-0000-000000000001"
SLOTS = (0, 1, 2)
SUM = ledger.CARDS_OFFSET + 16
PIECES = (
    (0, ledger.HEAD_BYTES),
    *((ledger.slot_offset(slot), ledger.SLOT_BYTES) for slot in SLOTS),
)


def used_at(slot: int) -> int:
    return ledger.slot_offset(slot) + ledger.SLOT_HEADER.size


def honest_images(operations: list[tuple[int, int]]) -> list[bytes]:
    """Return the file before and after each word that an operation writes (vcuda_layout.h).

    Args:
        operations: slot and its units from then on, for each.
    """
    data = bytearray(ledger.encode([CARD]).ljust(ledger.FILE_BYTES, b"\0"))
    images, held, sequences = [bytes(data)], dict.fromkeys(SLOTS, 0), dict.fromkeys(SLOTS, 0)

    def write(offset: int, word: int) -> None:
        struct.pack_into("<Q", data, offset, word)
        images.append(bytes(data))

    for slot, units in operations:
        write(used_at(slot) + 8, (units - held[slot]) % (1 << 64))
        held[slot], sequences[slot] = units, sequences[slot] + 1
        write(SUM, sum(held.values()) | slot << 36 | sequences[slot] << 44)
        write(used_at(slot), units | sequences[slot] << 36)
    return images


OPERATIONS = st.lists(st.tuples(st.sampled_from(SLOTS), st.integers(0, 5)), max_size=6)


@given(OPERATIONS, st.data())
def test_no_reading_of_an_honest_ledger_finds_a_false_sum(
    operations: list[tuple[int, int]], data: st.DataObject
) -> None:
    """A read copies the head, then the slots, then the head again; operations go on meanwhile."""
    images = honest_images(operations)
    times = st.lists(
        st.integers(0, len(images) - 1), min_size=len(PIECES) + 1, max_size=len(PIECES) + 1
    )
    *moments, last = sorted(data.draw(times))
    read = bytearray(images[0])
    for (offset, size), moment in zip(PIECES, moments, strict=True):
        read[offset : offset + size] = images[moment][offset : offset + size]
    assert ledger.false_sums(bytes(read), images[last][: ledger.HEAD_BYTES], SLOTS) == ()


@given(OPERATIONS, st.integers(0, 100))
def test_a_sum_with_other_units_than_the_slots_is_found(
    operations: list[tuple[int, int]], units: int
) -> None:
    data = bytearray(honest_images(operations)[-1])
    (word,) = struct.unpack_from("<Q", data, SUM)
    struct.pack_into("<Q", data, SUM, word >> 36 << 36 | units)
    found = ledger.false_sums(bytes(data), bytes(data), SLOTS)
    assert found == (() if units == word & (1 << 36) - 1 else (CARD,))
