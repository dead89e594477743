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

    The remainder of a card is nobody's: units that straddle two cards can't be used, so a node
    has the sum of its cards' units, not the units of their sum.

    Raises:
        ValueError: `size_bytes` is negative.
    """
    if size_bytes < 0:
        raise ValueError(f"a memory size is not negative: {size_bytes}")
    return size_bytes // MEMORY_UNIT_BYTES
