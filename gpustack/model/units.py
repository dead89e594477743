"""The two units of a card: hundredths of its compute time and blocks of its memory.

Both are the original gpu-manager's, so that pods written for it mean the same here.
"""

from typing import Final

CORES_PER_CARD: Final = 100
"""One card is 100 cores: a core is one hundredth of its compute time."""

MEMORY_UNIT_BYTES: Final = 268_435_456
"""One unit of `vcuda-memory`: 256 MiB."""


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
