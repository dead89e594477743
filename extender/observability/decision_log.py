"""The last decisions, for people: what the extender did, and why.

Kept in memory only, a bounded number of them; the API server's Events outlive this process.
"""

import collections
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from extender.cache.pods import PodState
from extender.verbs.outcome import BOUND, FITS, PLACED, Outcome
from gpustack.model.placement import Placement
from gpustack.model.refusal import Reason
from gpustack.model.request import PodRequest

_MOST: Final = 500
_MOST_REFUSED: Final = 20_000  # pods whose last refusal is remembered; as many as may wait
_MOST_MESSAGE: Final = 1024  # characters; an Event has room for no more either


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """One decision.

    Attributes:
        number: counts from 1 since this process began.
        time_ns: when it was made, Unix nanoseconds.
        verb: what the scheduler asked.
        pod: the pod's name.
        request: what it asks; None where that isn't known, or isn't a request.
        outcome: ``Fits``, ``Placed``, ``Bound``, or a stable code of why not.
        nodes: how many nodes were asked about.
        reasons: how many of them refused, by code.
        placement: the cards; None where none were given.
        message: why not, in a sentence; empty where ``reasons`` say it all.
        seconds: from the request to its answer.
    """

    number: int
    time_ns: int
    verb: str
    namespace: str
    pod: str
    uid: str
    request: PodRequest | None
    outcome: str
    nodes: int
    reasons: Mapping[str, int]
    placement: Placement | None
    message: str
    seconds: float


# No node had room, or the pod asks for what doesn't exist.
_REFUSALS: Final = frozenset(map(str, Reason))
_ROOM: Final = frozenset({FITS, PLACED, BOUND})


class DecisionLog:
    """Keeps the last decisions, and each pod's last refusal. Safe from any thread."""

    def __init__(self, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        """Begin with none; ``now_ns`` gives Unix nanoseconds."""
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._last: collections.deque[DecisionRecord] = collections.deque(maxlen=_MOST)
        self._refused: collections.OrderedDict[str, DecisionRecord] = collections.OrderedDict()
        self._count = 0

    def add(self, verb: str, outcome: Outcome, seconds: float) -> None:
        """Keep the outcome of a verb; ``seconds``: from the request to its answer."""
        pod, reasons = outcome.pod, outcome.reasons
        counts = {str(each): count for each, count in reasons.items() if each is not None}
        with self._lock:
            self._count += 1
            record = DecisionRecord(
                number=self._count,
                time_ns=self._now_ns(),
                verb=verb,
                namespace=pod.namespace,
                pod=pod.name,
                uid=pod.uid,
                request=pod.request if isinstance(pod, PodState) else None,
                outcome=outcome.code,
                nodes=sum(reasons.values()),
                reasons=counts,
                placement=outcome.placement,
                message=outcome.message[:_MOST_MESSAGE],
                seconds=seconds,
            )
            self._last.append(record)
            if record.outcome in _REFUSALS | _ROOM:
                self._refused.pop(record.uid, None)
            if record.outcome in _REFUSALS:
                # What it asked may be long, and the pod gone: no reader looks for it here.
                self._refused[record.uid] = replace(record, request=None)
                if len(self._refused) > _MOST_REFUSED:
                    self._refused.popitem(last=False)

    @property
    def last(self) -> list[DecisionRecord]:
        """The last decisions, newest first."""
        with self._lock:
            return list(reversed(self._last))

    def refusals(self, uids: Iterable[str]) -> dict[str, DecisionRecord]:
        """Return the last refusal of each of these pods that has one."""
        with self._lock:
            return {uid: self._refused[uid] for uid in uids if uid in self._refused}
