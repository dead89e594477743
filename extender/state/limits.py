"""The quota in force, and what the namespaces that it names hold."""

from collections.abc import Iterable, Mapping

from extender.state.holdings import Holdings
from extender.state.pods import PodState
from gpustack.model.quota import NO_QUOTA, Quota, Usage


class Limits:
    """Counts pods of limited namespaces only. Not locked: its owner is.

    Attributes:
        quota: what the namespaces may hold.
        usage: what they hold.
    """

    def __init__(self, pods: Mapping[str, PodState], holdings: Holdings) -> None:
        """Begin without a quota; ``pods`` and ``holdings`` are its owner's."""
        self.quota = NO_QUOTA
        self.usage = Usage()
        self._pods = pods
        self._holdings = holdings

    def replace(self, quota: Quota) -> bool:
        """Let another quota hold; returns whether it is another."""
        if quota == self.quota:
            return False
        self.quota = quota
        self.usage = Usage()
        self.count(self._pods)
        return True

    def count(self, uids: Iterable[str]) -> None:
        """Count what these pods hold now; a pod on a node that isn't known holds nothing."""
        for uid in uids:
            pod, placement = self._pods.get(uid), self._holdings.placement(uid)
            if pod is None or placement is None or self.quota.of(pod.namespace) is None:
                continue
            node = self._holdings.base(placement.node)
            if node is None:
                self.usage.drop(uid)
            else:
                self.usage.put(uid, pod.namespace, pod.name, node, placement)

    def drop(self, uids: Iterable[str]) -> None:
        """Count these pods no more."""
        for uid in uids:
            self.usage.drop(uid)
