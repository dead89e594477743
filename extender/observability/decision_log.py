"""The last decisions, for people who ask what the extender did and why.

A verb's call is opened around the request (``call``) and told in the middle of it, by whoever
knows: the outcome, the nodes' reasons, the cards. So no verb carries a record through its code.
Kept in memory only, a bounded number of them; the API server's Events outlive this process.
"""

import collections
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from extender.cache.pods import PodState
from extender.errors import CannotDecide
from gpustack.model.placement import Placement
from gpustack.model.refusal import Reason
from gpustack.model.request import PodRequest
from gpustack.wire.extender_v1 import PodName

_MOST: Final = 500
_MOST_REFUSED: Final = 20_000  # pods whose last refusal is remembered; as many as may wait
_MOST_MESSAGE: Final = 1024  # characters; an Event has room for no more either
_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})
_NOBODY: Final[Mapping[Reason | None, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """One decision.

    Attributes:
        number: counts from 1 since this process began.
        time_ns: when it was told, Unix nanoseconds.
        verb: what the scheduler asked.
        namespace: the pod's.
        pod: its name.
        uid: its UID.
        request: what it asks; None where that isn't known, or isn't a request.
        outcome: ``Fits``, ``Placed``, ``Bound``, or a stable code of why not.
        nodes: how many nodes were asked about.
        reasons: how many of them refused, by code.
        placement: the cards; None where none were given.
        node: where; empty where no node was chosen.
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
    node: str
    message: str
    seconds: float

    @property
    def refused(self) -> bool:
        """No node had room, or the pod asks for what doesn't exist."""
        return self.outcome in _REFUSALS


_REFUSALS: Final = frozenset(map(str, Reason))
_ROOM: Final = frozenset({"Fits", "Placed", "Bound"})


@dataclass(slots=True, kw_only=True)
class _Call:
    """A call under way, and what is known of its end."""

    of: "DecisionLog"
    verb: str
    begun: float
    pod: PodState | PodName | None = None
    outcome: str = ""
    nodes: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    placement: Placement | None = None
    message: str = ""

    def __enter__(self) -> None:
        self.of.begin(self)

    def __exit__(self, *_error: object) -> None:
        self.of.end(self)


class DecisionLog:
    """Keeps them. Safe from any thread."""

    def __init__(
        self,
        *,
        now_ns: Callable[[], int] = time.time_ns,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with none.

        Args:
            now_ns: Unix nanoseconds.
            clock: monotonic seconds.
        """
        self._now_ns = now_ns
        self._clock = clock
        self._lock = threading.Lock()
        self._last: collections.deque[DecisionRecord] = collections.deque(maxlen=_MOST)
        self._refused: collections.OrderedDict[str, DecisionRecord] = collections.OrderedDict()
        self._count = 0
        self._here = threading.local()  # the call that this thread is in

    def call(self, verb: str) -> contextlib.AbstractContextManager[None]:
        """Time a verb's call; what is told within becomes a decision, where anything is."""
        return _Call(of=self, verb=verb, begun=self._clock())

    def begin(self, call: _Call) -> None:
        """Let what this thread tells be this call's."""
        self._here.call = call

    def end(self, call: _Call) -> None:
        """Keep what was told in a call, if anything was."""
        self._here.call = None
        if call.pod is not None:
            self._keep(call, self._clock() - call.begun)

    def tell(
        self,
        pod: PodState,
        outcome: str,
        *,
        reasons: Mapping[Reason | None, int] = _NOBODY,
        placement: Placement | None = None,
        message: str = "",
    ) -> None:
        """Note how the call of this thread ends; without one, nobody asked.

        Args:
            pod: whose decision it is.
            outcome: a stable code.
            reasons: how many of the nodes that were asked about gave which; None is for room.
            placement: the cards that the pod got.
            message: why not, in a sentence.
        """
        call = self._call
        if call is None:
            return
        call.pod = pod
        call.outcome = outcome
        call.nodes = sum(reasons.values()) or call.nodes
        call.reasons = {str(each): count for each, count in reasons.items() if each is not None}
        call.placement = placement
        call.message = message[:_MOST_MESSAGE]

    def fail(self, pod: PodName, error: CannotDecide) -> None:
        """Note that the call of this thread ends without a decision."""
        call = self._call
        if call is not None:
            call.pod, call.placement = call.pod or pod, None
            call.outcome, call.message = error.code, str(error)[:_MOST_MESSAGE]

    @property
    def last(self) -> list[DecisionRecord]:
        """The last decisions, newest first."""
        with self._lock:
            return list(reversed(self._last))

    def refusals(self, uids: Iterable[str]) -> dict[str, DecisionRecord]:
        """Return the last refusal of each of these pods that has one."""
        with self._lock:
            return {uid: self._refused[uid] for uid in uids if uid in self._refused}

    @property
    def _call(self) -> _Call | None:
        found: _Call | None = getattr(self._here, "call", None)
        return found

    def _keep(self, call: _Call, seconds: float) -> None:
        pod = call.pod
        if pod is None:
            return
        with self._lock:
            self._count += 1
            told = DecisionRecord(
                number=self._count,
                time_ns=self._now_ns(),
                verb=call.verb,
                namespace=pod.namespace,
                pod=pod.name,
                uid=pod.uid,
                request=pod.request if isinstance(pod, PodState) else None,
                outcome=call.outcome,
                nodes=call.nodes,
                reasons=MappingProxyType(dict(call.reasons)) if call.reasons else _NOTHING,
                placement=call.placement,
                node="" if call.placement is None else call.placement.node,
                message=call.message,
                seconds=seconds,
            )
            self._last.append(told)
            if told.refused or told.outcome in _ROOM:
                self._refused.pop(told.uid, None)
            if told.refused:
                # What it asked may be long, and the pod gone: nobody looks for it here.
                self._refused[told.uid] = replace(told, request=None)
                if len(self._refused) > _MOST_REFUSED:
                    self._refused.popitem(last=False)
