"""The answer of `prioritize`: how much better one node is than another."""

from collections.abc import Mapping
from typing import Final

import msgspec

MOST: Final = 10
"""The best score; the scheduler stretches 0..10 to its own scale."""


class _HostPriority(msgspec.Struct, gc=False, rename="pascal"):
    host: str
    score: int


_ENCODER: Final = msgspec.json.Encoder()


def encode_priorities(scores: Mapping[str, int]) -> bytes:
    """Write `HostPriorityList`: a score for each node, in the order given."""
    return _ENCODER.encode(list(map(_HostPriority, scores, scores.values())))
