"""The quota in force, and what the namespaces that it names hold.

Another quota counts every pod anew, which takes longer than a decision may wait. So it is counted
beside the one in force, pod by pod, and takes its place when it is complete.

A pod counts with the cards that it holds, and before with its claim (`quota_claims`).
"""

from collections.abc import Iterable, Mapping

from extender.cache.allocations import Allocations
from extender.cache.pods import PodState
from extender.quota.quota_claims import QuotaClaims
from gpustack.model.node import Node
from gpustack.model.placement import Placement
from gpustack.model.quota.check import exceeds
from gpustack.model.quota.claim import Choice, Claim
from gpustack.model.quota.quota import NO_QUOTA, Quota
from gpustack.model.quota.usage import Usage
from gpustack.model.units import CORES_PER_CARD


class QuotaUsage:
    """Counts pods of limited namespaces only. Not locked: its owner is.

    Attributes:
        quota: what the namespaces may hold.
        usage: what they hold.
        freed: a claim ended since it was cleared, so others may have room.
    """

    def __init__(
        self, pods: Mapping[str, PodState], allocations: Allocations, claims: QuotaClaims
    ) -> None:
        """Begin without a quota; ``pods`` and ``allocations`` are its owner's."""
        self.freed = False
        self.claims = claims
        self.quota = NO_QUOTA
        self.usage = Usage()
        self._coming: tuple[Quota, Usage] | None = None
        self._pods = pods
        self._allocations = allocations

    def begin(self, quota: Quota) -> list[str] | None:
        """Begin to count for another quota; returns which pods are to be counted.

        None where it is the same.
        """
        self._coming = None if quota == self.quota else (quota, Usage())
        if self._coming is None:
            return None
        return [*self._pods, *(each.uid for each in self.claims.all())]

    def replace(self) -> None:
        """Let the quota hold that was begun; by now every pod has been counted for it."""
        if self._coming is not None:
            self.quota, self.usage = self._coming
            self._coming = None

    def count(self, uids: Iterable[str]) -> None:
        """Count what these pods hold now, also on cards and nodes that aren't known any more."""
        for uid in uids:
            pod, placement = self._pods.get(uid), self._allocations.placement(uid)
            if pod is not None and placement is not None:
                self._count_cards(pod, placement)
            elif (claim := self.claims.get(uid)) is not None:
                self._count_claim(claim)
            else:
                for _, usage in self._counted:
                    usage.drop(uid)

    def _count_cards(self, pod: PodState, placement: Placement) -> None:
        node = self._allocations.base(placement.node) or Node(name=placement.node)
        where = pod.namespace, pod.name, node, placement
        for quota, usage in reversed(self._counted):  # the coming one knows no models yet
            if quota.of(pod.namespace) is not None:
                usage.put(pod.uid, *where, before=self.usage)

    def _count_claim(self, claim: Claim) -> None:
        for quota, usage in self._counted:
            limit = quota.of(claim.namespace)
            if limit is not None:
                usage.claim(claim, limit.cards)

    def claim(self, pod: PodState, choices: frozenset[Choice]) -> bool:
        """Count what a pod will take that is let pass now; returns whether it may be.

        Another pod may have taken the quota since the nodes were asked. Without choices the pod
        waits for a node again, and claims nothing.
        """
        if not choices:
            self._end_claim(pod.uid)
            return True
        if self.quota.of(pod.namespace) is None or self._allocations.placement(pod.uid) is not None:
            return True
        claim = Claim(uid=pod.uid, namespace=pod.namespace, name=pod.name, choices=choices)
        if exceeds(self.quota, self.usage, claim):
            return False
        before = self.claims.get(pod.uid)
        self.freed |= before is not None and before.choices != choices
        self.claims.put(claim)
        if pod.uid not in self._pods:  # gone meanwhile, which the scheduler may not know yet
            self.claims.leave(pod.uid, named_again=True)
        self._count_claim(claim)
        return True

    def leave(self, uid: str, *, named_again: bool) -> None:
        """Learn that a pod is gone; ``named_again``: another one may have its name already."""
        self.claims.leave(uid, named_again=named_again)
        self.count((uid,))

    def expire(self, most: int) -> None:
        """End claims whose time is over; of very many some stand a moment longer."""
        for uid in self.claims.due(most):
            self._end_claim(uid)

    def _end_claim(self, uid: str) -> None:
        if self.claims.end(uid) is not None:
            self.freed = True
            self.count((uid,))

    def names_left(self, pod: PodState) -> tuple[tuple[str, bool], ...]:
        """Say of each model name of a pod's quota whether it leaves what a container takes."""
        limit = self.quota.of(pod.namespace)
        if limit is None or pod.request is None:
            return ()
        least = min(min(CORES_PER_CARD, each.cores) for each in pod.request.containers)
        where, own = pod.namespace, (pod.uid,)
        return tuple(
            (name, self.usage.used(where, name, without=own) + least <= most)
            for name, most in limit.cards.items()
        )

    def settle(self, pod: PodState) -> None:
        """Count a known pod as it is now; its claim may have ended by that."""
        got = pod.node or self._allocations.placement(pod.uid) is not None
        if pod.finished:
            self.claims.leave(pod.uid, named_again=False)
        elif got or self.claims.refuse(pod):
            claim = self.claims.end(pod.uid)
            # A pod that might have come to one kind of node alone has taken what it claimed.
            self.freed |= claim is not None and not (got and len(claim.choices) == 1)
        self.count((pod.uid,))

    @property
    def _counted(self) -> tuple[tuple[Quota, Usage], ...]:
        """What is counted now: the quota in force and, while there is one, the coming one."""
        in_force = self.quota, self.usage
        return (in_force,) if self._coming is None else (in_force, self._coming)
