"""The answer of `prioritize`: how much better one node is than another."""

import itertools
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
_FEW: Final = 100


def encode_priorities(args: FilterArgs, scores: Iterable[int]) -> bytes:
    """Write `HostPriorityList`: scores of nodes, in the order of the request.

    Of more than a hundred nodes the least score is taken off all, and those that have nothing left
    aren't named: the scheduler adds nothing for a node that isn't, so no choice is another one.
    Most nodes of a large cluster are alike, and reading a score for each of them takes the
    scheduler as long as a tenth of placing a pod.

    Args:
        args: the request.
        scores: 0 to `MOST`, one for each of its names.
    """
    given = list(scores)
    above = [True] * len(given)
    if len(given) > _FEW:
        least = min(given)
        above = [score > least for score in given]
        given = [score - least for score in itertools.compress(given, above)]
    quoted = _as_listed(args.listed)
    if not given or len(quoted) != len(args.names):
        names = itertools.compress(args.names, above)
        return _ENCODER.encode(list(map(_HostPriority, names, given)))
    # A scheduler waits for this thousands of times, with thousands of names each.
    pieces = [b""] * (2 * len(given))
    pieces[::2] = itertools.compress(quoted, above)
    pieces[1::2] = map(_BETWEEN.__getitem__, given)
    return b"[" + _OPEN + b"".join(pieces).removesuffix(b"," + _OPEN) + b"]"


def _as_listed(listed: bytes) -> list[bytes]:
    """Return the names as they are spelt in a JSON array without blanks, as Go writes it.

    Without a backslash no text in it has a quote, so each three characters that are looked for here
    stand between two names. Of an array with blanks it finds too few.
    """
    if b"\\" in listed or not (listed.startswith(b'["') and listed.endswith(b'"]')):
        return []
    return listed[2:-2].split(b'","')
