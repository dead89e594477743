"""The two units of a card: hundredths of its compute time and blocks of its memory.

Both are the original gpu-manager's, so that pods written for it mean the same here.
"""

from typing import Final

CORES_PER_CARD: Final = 100
"""One card is 100 cores: a core is one hundredth of its compute time."""

MEMORY_UNIT_BYTES: Final = 268_435_456
"""One unit of `vcuda-memory`: 256 MiB."""

MOST_CARDS: Final = 256
"""Cards that a node may have: a search takes longer the more there are, and a driver numbers its
devices by one byte (NVIDIA's character device 195 has 256 minors, two of them no cards)."""

MOST_LINKED_CARDS: Final = 64
"""Cards of a node whose links are looked at; on more of them every pair counts as the farthest.

No host joins that many: sixteen stand in the largest NVSwitch machine (HGX-2), some twenty behind
PCIe switches. To read a matrix of 256 cards and search it takes a second of everybody's time.
"""


def memory_units(size_bytes: int) -> int:
    """Return how many whole memory units a card of `size_bytes` bytes can hand out.

    Units that straddle two cards can't be used, so a node has the sum of its cards' units, not the
    units of their sum.

    Raises:
        ValueError: `size_bytes` is negative.
    """
    if size_bytes < 0:
        raise ValueError(f"a memory size is not negative: {size_bytes}")
    return size_bytes // MEMORY_UNIT_BYTES


LARGEST_CARD_UNITS: Final = 1 << 16
"""16 TiB, sixty times the largest card that is sold (288 GB): more is a number of bytes or MiB."""

LARGEST_CARD_BYTES: Final = LARGEST_CARD_UNITS * MEMORY_UNIT_BYTES

_UNLIKELY_UNITS: Final = 1 << 11  # 512 GiB, which no card that is sold has
_MIB_A_UNIT: Final = MEMORY_UNIT_BYTES >> 20


def cards_text(hundredths: int) -> str:
    """Return hundredths as people write cards: `4`, `2.5`, `0.25`."""
    whole, part = divmod(hundredths, CORES_PER_CARD)
    return f"{whole}.{part:02d}".rstrip("0") if part else str(whole)


def size_text(units: int) -> str:
    """Return an amount of memory as people say it: `8 GiB`, `1.75 GiB`, `2 EiB`."""
    size, names = units * _MIB_A_UNIT, ["MiB", "GiB", "TiB", "PiB", "EiB"]
    power = min(max(0, (size.bit_length() - 1) // 10), len(names) - 1)
    return f"{_decimals(size / 1024**power)} {names[power]}"


def gib_text(units: int) -> str:
    """Return an amount of memory as a number of GiB."""
    return _decimals(units * MEMORY_UNIT_BYTES / (1 << 30))


def memory_text(units: int) -> str:
    """Return an amount of memory in both units: `32 memory units (8 GiB)`."""
    return f"{units} memory units ({size_text(units)})"


def _decimals(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def meant_text(units: int) -> str:
    """Return `for 8 GiB write 32` where so many units look like bytes or MiB; else an empty text.

    What is too small to be a number of bytes is read as MiB.
    """
    if units < _UNLIKELY_UNITS:
        return ""
    as_mib = units <= LARGEST_CARD_UNITS * _MIB_A_UNIT
    wanted = -(-units // (_MIB_A_UNIT if as_mib else MEMORY_UNIT_BYTES))
    return f"for {size_text(wanted)} write {wanted}"
