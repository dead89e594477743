"""Which decision about a pod is in force, and until when.

A decision counts from the moment it is made, before its annotations are written, and is known as
*assumed* until the watch shows them; from then on the annotations are the truth. A decision on a
pod that isn't bound is a reservation: it ends when the pod is bound elsewhere, finished or gone,
when the scheduler calls the pod unschedulable more than 30 s after it, or by age.

Ages are measured by the monotonic clock from the moment we first knew of a decision, so a clock
that is set forward ends none, and one that is set back keeps none for ever.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from extender.state.pods import PodState
from gpustack.model.placement import Placement

_GRACE_NS: Final = 30 * 10**9  # the scheduler still reports the refusal before the decision
_SKEW_NS: Final = 60 * 10**9  # clocks of two hosts differ by less


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """A decision.

    Attributes:
        placement: which cards.
        time_ns: when it was made, Unix nanoseconds.
        version: the pod's ``resourceVersion`` that it was made on; its write holds for no other.
    """

    placement: Placement
    time_ns: int
    version: int


class Reservations:
    """The decisions made here, and the ends of all that aren't bound. Not locked: its owner is."""

    def __init__(
        self,
        *,
        seconds: float,
        now_ns: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        """Start empty.

        Args:
            seconds: how long an unbound pod keeps its cards.
            now_ns: Unix nanoseconds.
            clock: monotonic seconds.
        """
        self._seconds = seconds
        self._now_ns = now_ns
        self._clock = clock
        self._assumed: dict[str, Reserved] = {}
        # The decision's time, and the clock at its end; kept beyond it, or it would begin anew.
        self._ends: dict[str, tuple[int, float]] = {}
        self._unbound: set[str] = set()  # pods that hold cards
        self._queue: list[tuple[float, str]] = []  # heap of (end, UID); some are outdated
        self._last_ns = 0

    def __len__(self) -> int:
        """How many pods hold cards without being bound."""
        return len(self._unbound)

    def assume(self, pod: PodState, placement: Placement) -> int:
        """Decide; returns the decision's time, Unix nanoseconds."""
        now_ns = self._now_ns()
        written_ns = pod.decision.time_ns if pod.decision is not None else 0
        # Later than what stands on the pod, also when the clock was set back: the later of two
        # decisions is the one in force.
        after = written_ns + 1 if written_ns <= now_ns + _SKEW_NS else 0
        self._last_ns = max(now_ns, self._last_ns + 1, after)
        self._assumed[pod.uid] = Reserved(
            placement=placement, time_ns=self._last_ns, version=pod.version
        )
        return self._last_ns

    def retract(self, uid: str, time_ns: int) -> bool:
        """Take back the decision of that time, unless another took its place."""
        assumed = self._assumed.get(uid)
        if assumed is None or assumed.time_ns != time_ns:
            return False
        del self._assumed[uid]
        return True

    def forget(self, uid: str) -> None:
        """Forget everything about a pod."""
        self._assumed.pop(uid, None)
        self._ends.pop(uid, None)
        self._unbound.discard(uid)

    def settle(self, pod: PodState) -> Placement | None:
        """Return the cards that count as the pod's now, and remember when that ends."""
        decision = self._in_force(pod)
        if decision is None:
            self._assumed.pop(pod.uid, None)
        if decision is None or pod.node:
            self._unbound.discard(pod.uid)
        else:
            self._unbound.add(pod.uid)
        if pod.node:
            self._ends.pop(pod.uid, None)
        return None if decision is None else decision.placement

    def due(self) -> list[str]:
        """Return the pods whose reservation may be over, each once."""
        now = self._clock()
        found = []
        while self._queue and self._queue[0][0] <= now:
            found.append(heapq.heappop(self._queue)[1])
        return found

    def _in_force(self, pod: PodState) -> Reserved | None:
        if pod.request is None or pod.finished:
            return None
        written = None
        if pod.decision is not None:
            written = Reserved(
                placement=pod.decision.placement,
                time_ns=pod.decision.time_ns,
                version=pod.version,
            )
        assumed = self._assumed.get(pod.uid)
        if assumed is not None and self._outlived(pod, assumed, written):
            del self._assumed[pod.uid]
            assumed = None
        decision = assumed or written
        if decision is None or pod.node:
            return decision
        return decision if self._lives(pod, decision) else None

    def _outlived(self, pod: PodState, assumed: Reserved, written: Reserved | None) -> bool:
        """Say whether what stands on the pod replaces what was decided here."""
        if pod.node not in {"", assumed.placement.node}:
            return True
        if written is None:
            return False
        # The write of what was decided here names the pod's version: it has come about, or never
        # will, once the pod with a decision has another. Whose decision that is doesn't matter.
        return bool(pod.node) or written.version > assumed.version

    def _lives(self, pod: PodState, decision: Reserved) -> bool:
        return (
            not pod.gated
            and self._clock() < self._end(pod.uid, decision)
            and pod.unschedulable_ns <= decision.time_ns + _GRACE_NS
        )

    def _end(self, uid: str, decision: Reserved) -> float:
        """Return the clock at a reservation's end, the same for as long as it is known."""
        known = self._ends.get(uid)
        if known is not None and known[0] == decision.time_ns:
            return known[1]
        age = max(0.0, (self._now_ns() - decision.time_ns) / 1e9)
        if uid in self._assumed and self._assumed[uid].time_ns == decision.time_ns:
            age = 0.0
        end = self._clock() + self._seconds - age
        self._ends[uid] = (decision.time_ns, end)
        heapq.heappush(self._queue, (end, uid))
        return end
