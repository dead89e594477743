"""The answer of `prioritize`: how much better one node is than another."""

from collections.abc import Iterable
from typing import Final

import msgspec

from gpustack.wire.extender_bodies.filtering import FilterArgs

MOST: Final = 10
"""The best score; the scheduler stretches 0..10 to its own scale."""

_OPEN: Final = b'{"Host":"'
# From the end of one name to the beginning of the next, by score.
_BETWEEN: Final = tuple(b'","Score":%d},' % score + _OPEN for score in range(MOST + 1))


class _HostPriority(msgspec.Struct, gc=False, rename="pascal"):
    host: str
    score: int


_ENCODER: Final = msgspec.json.Encoder()


def encode_priorities(args: FilterArgs, scores: Iterable[int]) -> bytes:
    """Write `HostPriorityList`: a score for each node, in the order of the request.

    Args:
        args: the request.
        scores: 0 to `MOST`, one for each of its names.
    """
    quoted = _as_listed(args.listed)
    if not quoted or len(quoted) != len(args.names):
        return _ENCODER.encode(list(map(_HostPriority, args.names, scores)))
    # A scheduler waits for this thousands of times, with thousands of names each.
    pieces = [b""] * (2 * len(quoted))
    pieces[::2] = quoted
    pieces[1::2] = map(_BETWEEN.__getitem__, scores)
    return b"[" + _OPEN + b"".join(pieces).removesuffix(b"," + _OPEN) + b"]"


def _as_listed(listed: bytes) -> list[bytes]:
    """Return the names as they are spelt in a JSON array without blanks, as Go writes it.

    Without a backslash no text in it has a quote, so each three characters that are looked for here
    stand between two names. Of an array with blanks it finds too few.
    """
    if b"\\" in listed or not (listed.startswith(b'["') and listed.endswith(b'"]')):
        return []
    return listed[2:-2].split(b'","')
