"""What pods will take of their quota that were let pass, and aren't bound yet.

kube-scheduler counts a pod on its node from its own decision on, and may wait long before it asks
for the binding: 15 minutes for plugins of Permit (`maxTimeout` of its framework), 600 s for a
volume (`bindTimeoutSeconds` of VolumeBinding), and 600 s for devices (`bindingTimeout` of
DynamicResources). So `filter` leaves a claim for a pod that may have a node. It ends when the pod
gets cards, is bound or refused, or after `_WAIT_SECONDS`, which is longer than all these waits. A
scheduler whose own waits are longer than its defaults isn't held beyond that. A pod that is asked
about again claims no longer: one that the scheduler lets pass and gives up again and again, which
nothing tells us of, would keep the quota from the others of its namespace for ever.

A scheduler before 1.35 doesn't give up the wait for a volume when the pod is deleted: it looks once
a second whether there is a pod of that name, and another pod of the name keeps it waiting. So the
claim of a pod that is gone stays a moment, and where the name comes again, as long as that wait.

Claims are in memory alone: an extender that starts anew doesn't know those of a scheduler that
runs on. A scheduler that starts, or begins to lead, has let no pod pass.
"""

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from extender.cache.pods import PodState
from gpustack.model.quota.claim import Claim

_WAIT_SECONDS: Final = 900 + 600 + 600 + 60.0  # what is said above, and a minute for its requests
_GONE_SECONDS: Final = 10.0  # the scheduler looks each second, at what its watch shows
_NAMED_AGAIN_SECONDS: Final = 600 + 60.0
# As of reservations: a refusal before that may be an earlier one. Where it is none, the claim ends
# so much later, and so do the pod's next ones, for the same refusal again is no news: a gang is
# asked about every few seconds. From 1.35 on the scheduler nominates a pod that really waits.
_LATE_SECONDS: Final = 30.0


class QuotaClaims:
    """The claims, by UID. Not locked: its owner is."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin without any; ``clock`` is in monotonic seconds."""
        self._clock = clock
        self._claims: dict[str, Claim] = {}
        self._asked: dict[str, float] = {}  # when each pod was let pass last
        self._given_up: set[str] = set()  # pods that were refused right after they were let pass
        # By how long they stand, each in the order in which they began.
        self._since: dict[float, OrderedDict[str, float]] = {
            seconds: OrderedDict()
            for seconds in (_WAIT_SECONDS, _LATE_SECONDS, _GONE_SECONDS, _NAMED_AGAIN_SECONDS)
        }
        self._gone: dict[tuple[str, str], set[str]] = {}  # by the pod's name

    def all(self) -> Iterable[Claim]:
        """Return every claim."""
        return self._claims.values()

    def get(self, uid: str) -> Claim | None:
        """Return a pod's claim."""
        return self._claims.get(uid)

    def put(self, claim: Claim) -> None:
        """Take a pod's claim in place of its last one, which goes on."""
        uid = claim.uid
        if uid not in self._since[_WAIT_SECONDS]:
            self.end(uid)
            self._stand(uid, _WAIT_SECONDS)
        self._claims[uid], self._asked[uid] = claim, self._clock()
        if uid in self._given_up:
            self._since[_LATE_SECONDS].setdefault(uid, self._clock())

    def end(self, uid: str) -> Claim | None:
        """Forget a pod's claim; returns it."""
        claim = self._claims.pop(uid, None)
        if claim is None:
            return None
        del self._asked[uid]
        for since in self._since.values():
            since.pop(uid, None)
        title = claim.namespace, claim.name
        gone = self._gone.get(title, set())
        gone.discard(uid)
        if not gone:
            self._gone.pop(title, None)
        return claim

    def leave(self, uid: str, *, named_again: bool) -> None:
        """Learn that a pod is gone; ``named_again``: another one may have its name already."""
        self._given_up.discard(uid)
        claim = self._claims.get(uid)
        if claim is None or uid not in self._since[_WAIT_SECONDS]:
            return
        self._gone.setdefault((claim.namespace, claim.name), set()).add(uid)
        self._stand(uid, _NAMED_AGAIN_SECONDS if named_again else _GONE_SECONDS)

    def see(self, pod: PodState) -> None:
        """Learn that there is a pod: it may have the name of one that is gone."""
        for uid in self._gone.get((pod.namespace, pod.name), ()):
            if uid != pod.uid and uid in self._since[_GONE_SECONDS]:
                self._stand(uid, _NAMED_AGAIN_SECONDS)

    def refuse(self, pod: PodState) -> bool:
        """Learn what the scheduler says of a pod; returns whether it refused it after it passed.

        Where the refusal may be an earlier one, the claim ends after a while all the same.
        """
        uid, asked = pod.uid, self._asked.get(pod.uid)
        if pod.nominated:
            self._given_up.discard(uid)
            self._since[_LATE_SECONDS].pop(uid, None)
        elif asked is not None and pod.refused_clock > asked + _LATE_SECONDS:
            return True
        elif asked is not None and pod.refused_clock > asked:
            self._given_up.add(uid)
            self._since[_LATE_SECONDS].setdefault(uid, self._clock())
        return False

    def due(self, most: int) -> list[str]:
        """Return pods whose claim's time is over; at most so many of each kind."""
        now = self._clock()
        return [
            uid
            for seconds, since in self._since.items()
            for uid, began in itertools.islice(since.items(), most)
            if began + seconds <= now
        ]

    def _stand(self, uid: str, seconds: float) -> None:
        """Let a claim stand so long from now on."""
        for since in self._since.values():
            since.pop(uid, None)
        self._since[seconds][uid] = self._clock()
