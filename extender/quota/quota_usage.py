"""The quota in force, and what the namespaces that it names hold.

Another quota counts every pod anew, which takes longer than a decision may wait. So it is counted
beside the one in force, pod by pod, and takes its place when it is complete.
"""

from collections.abc import Iterable, Mapping

from extender.cache.allocations import Allocations
from extender.cache.pods import PodState
from gpustack.model.node import Node
from gpustack.model.quota.quota import NO_QUOTA, Quota
from gpustack.model.quota.usage import Usage


class QuotaUsage:
    """Counts pods of limited namespaces only. Not locked: its owner is.

    Attributes:
        quota: what the namespaces may hold.
        usage: what they hold.
    """

    def __init__(self, pods: Mapping[str, PodState], allocations: Allocations) -> None:
        """Begin without a quota; ``pods`` and ``allocations`` are its owner's."""
        self.quota = NO_QUOTA
        self.usage = Usage()
        self._coming: tuple[Quota, Usage] | None = None
        self._pods = pods
        self._allocations = allocations

    def begin(self, quota: Quota) -> bool:
        """Begin to count for another quota; returns whether it is another."""
        self._coming = None if quota == self.quota else (quota, Usage())
        return self._coming is not None

    def replace(self) -> None:
        """Let the quota hold that was begun; by now every pod has been counted for it."""
        if self._coming is not None:
            self.quota, self.usage = self._coming
            self._coming = None

    def count(self, uids: Iterable[str]) -> None:
        """Count what these pods hold now, also on cards and nodes that aren't known any more."""
        for uid in uids:
            pod, placement = self._pods.get(uid), self._allocations.placement(uid)
            if pod is None or placement is None:
                continue
            node = self._allocations.base(placement.node) or Node(name=placement.node)
            where = pod.namespace, pod.name, node, placement
            for quota, usage in reversed(self._counted):  # the coming one knows no models yet
                if quota.of(pod.namespace) is not None:
                    usage.put(uid, *where, before=self.usage)

    def drop(self, uids: Iterable[str]) -> None:
        """Count these pods no more."""
        for uid in uids:
            for _, usage in self._counted:
                usage.drop(uid)

    @property
    def _counted(self) -> tuple[tuple[Quota, Usage], ...]:
        """What is counted now: the quota in force and, while there is one, the coming one."""
        in_force = self.quota, self.usage
        return (in_force,) if self._coming is None else (in_force, self._coming)
