"""The answer of `prioritize`: how much better one node is than another."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from gpustack.wire.extender_v1.filter import FilterArgs

MOST: Final = 10
"""The best score; the scheduler stretches 0..10 to its own scale."""


class _HostPriority(msgspec.Struct, gc=False, rename="pascal"):
    host: str
    score: int


_ENCODER: Final = msgspec.json.Encoder()
_FEW: Final = 100


def encode_priorities(args: FilterArgs, scores: Iterable[int]) -> bytes:
    """Write `HostPriorityList`: scores of nodes, in the order of the request.

    With more than a hundred nodes the least score is taken off all, and the answer leaves out
    nodes with score 0: the scheduler adds nothing for those, so its choice stays the same.
    Most nodes of a large cluster are alike, and reading a score for each of them takes the
    scheduler as long as a tenth of placing a pod.

    Args:
        args: the request.
        scores: 0 to `MOST`, one for each of its names.
    """
    names: Sequence[str] = args.names
    given = list(scores)
    if len(given) > _FEW:
        least = min(given)
        more = [at for at, score in enumerate(given) if score > least]
        names = [names[at] for at in more]
        given = [given[at] - least for at in more]
    return _ENCODER.encode(list(map(_HostPriority, names, given)))
