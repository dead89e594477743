"""Which decision about a pod is in force, and until when.

A decision counts from the moment it is made, before its annotations are written, and is known as
*assumed* until the watch shows them; from then on the annotations are the truth. A decision on a
pod that isn't bound is a reservation: it ends when the pod is bound elsewhere, finished or gone,
when the scheduler calls the pod unschedulable more than 30 s after it, or by age.

All this is measured by the monotonic clock, from the moment we first knew of a decision: a clock
that is set forward ends none, and one that is set back keeps none for ever. Only what stood on a
pod already when we first saw it has no moment but the times that are written there.

A decision's time is its name. It goes up while the clock runs on, also when that is set back a
little; after a larger jump it follows the clock: a time that is wrong misleads its readers.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from extender.cache.pods import PodState
from gpustack.model.placement import Placement
from gpustack.wire.annotations import Decision

_GRACE_SECONDS: Final = 30.0  # the scheduler still reports the refusal before the decision
_GRACE_NS: Final = int(_GRACE_SECONDS * 1e9)
_SKEW_NS: Final = 60 * 10**9  # clocks of two hosts differ by less


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A decision that was made here.

    Attributes:
        placement: which cards.
        time_ns: when it was made, Unix nanoseconds.
        version: the pod's ``resourceVersion`` that it was made on; its write holds for no other.
    """

    placement: Placement
    time_ns: int
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Life:
    """Of a decision on a pod that isn't bound; monotonic seconds.

    Attributes:
        since: when it was made, or else first seen.
        end: when it ends by age; minus infinity once it has ended otherwise.
        first_sight: it stood there when the pod was first seen.
    """

    since: float
    end: float
    first_sight: bool


class Reservations:
    """The decisions made here, and the ends of all that aren't bound. Not locked: its owner is."""

    def __init__(
        self,
        *,
        seconds: float,
        now_ns: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        """Start empty; an unbound pod keeps its cards for ``seconds`` of the ``clock``."""
        self._seconds = seconds
        self._now_ns = now_ns
        self._clock = clock
        self._assumed: dict[str, Reservation] = {}
        # By the decision's time: what stands on a pod, and what was decided since. Kept beyond
        # their end, or they would begin anew.
        self._lives: dict[str, dict[int, _Life]] = {}
        self._doubtful: dict[str, int] = {}  # the decision whose write may still come about
        self._unbound: set[str] = set()  # pods that hold cards
        self._queue: list[tuple[float, str]] = []  # heap of (end, UID); some are outdated
        self._last_ns = 0

    def __len__(self) -> int:
        """How many pods hold cards without being bound."""
        return len(self._unbound)

    def assume(self, pod: PodState, placement: Placement) -> int:
        """Decide; returns the decision's time, Unix nanoseconds."""
        now_ns = self._now_ns()
        known = pod.decision, self._assumed.get(pod.uid)
        earlier = (self._last_ns, *(each.time_ns for each in known if each is not None))
        # No two decisions about a pod have one name; and what is far ahead was never the time.
        after = (each + 1 for each in earlier if each <= now_ns + _SKEW_NS)
        self._last_ns = max([now_ns, *after])
        self._assumed[pod.uid] = Reservation(
            placement=placement, time_ns=self._last_ns, version=pod.version
        )
        return self._last_ns

    def doubt(self, uid: str, time_ns: int) -> None:
        """Learn that the decision of that time may have been written, or may be still."""
        if self._is_assumed(uid, time_ns):
            self._doubtful[uid] = time_ns

    def is_doubtful(self, uid: str) -> bool:
        """Say whether an earlier write about the pod may still come about."""
        return uid in self._doubtful and self._is_assumed(uid, self._doubtful[uid])

    def retract(self, uid: str, time_ns: int) -> bool:
        """Take back the decision of that time, unless another took its place."""
        if not self._is_assumed(uid, time_ns):
            return False
        del self._assumed[uid]
        return True

    def forget(self, uid: str) -> None:
        """Forget everything about a pod."""
        self._assumed.pop(uid, None)
        self._doubtful.pop(uid, None)
        self._lives.pop(uid, None)
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
            self._lives.pop(pod.uid, None)
        return None if decision is None else decision.placement

    def due(self, most: int) -> list[str]:
        """Return pods whose reservation may be over, each once; at most so many at a time."""
        now = self._clock()
        found: list[str] = []
        while len(found) < most and self._queue and self._queue[0][0] <= now:
            found.append(heapq.heappop(self._queue)[1])
        return found

    def _is_assumed(self, uid: str, time_ns: int) -> bool:
        assumed = self._assumed.get(uid)
        return assumed is not None and assumed.time_ns == time_ns

    def _in_force(self, pod: PodState) -> Reservation | Decision | None:
        if pod.finished:
            return None
        assumed = self._assumed.get(pod.uid)
        if assumed is not None and self._outlived(pod, assumed):
            del self._assumed[pod.uid]
            assumed = None
        decision = assumed or pod.decision
        if decision is None or pod.node:
            return decision
        return decision if self._is_alive(pod, decision) else None

    def _outlived(self, pod: PodState, assumed: Reservation) -> bool:
        """Say whether what is known of the pod replaces what was decided here."""
        if pod.node:
            return True
        if pod.version <= assumed.version:
            return False
        # The write of what was decided here names the older version: it has come about, or never
        # will. Which decision stands there doesn't matter; where there is none, the request that
        # writes still learns of it, and may change the pod before.
        return pod.decision is not None or self.is_doubtful(pod.uid)

    def _is_alive(self, pod: PodState, decision: Reservation | Decision) -> bool:
        life = self._life(pod, decision)
        if self._given_up(pod, decision, life):
            self._lives[pod.uid][decision.time_ns] = replace(life, end=float("-inf"))
            return False
        return not pod.gated and self._clock() < life.end

    def _given_up(self, pod: PodState, decision: Reservation | Decision, life: _Life) -> bool:
        """Say whether the scheduler has refused the pod since the decision."""
        if pod.refused_clock > life.since + _GRACE_SECONDS:
            return True
        return life.first_sight and pod.unschedulable_ns > decision.time_ns + _GRACE_NS

    def _life(self, pod: PodState, decision: Reservation | Decision) -> _Life:
        """Return the life of the pod's decision, the same for as long as it is known."""
        lives = self._lives.setdefault(pod.uid, {})
        if decision.time_ns in lives:
            return lives[decision.time_ns]
        first_sight = not self._is_assumed(pod.uid, decision.time_ns) and not pod.followed
        age = max(0.0, (self._now_ns() - decision.time_ns) / 1e9) if first_sight else 0.0
        now = self._clock()
        end = now + self._seconds - age
        life = _Life(since=now, end=end, first_sight=first_sight)
        known = self._assumed.get(pod.uid), pod.decision
        for outdated in lives.keys() - {each.time_ns for each in known if each is not None}:
            del lives[outdated]
        lives[decision.time_ns] = life
        heapq.heappush(self._queue, (life.end, pod.uid))
        return life
