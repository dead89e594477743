"""Pods for which the scheduler makes room on a node: what they will take counts already.

The scheduler names the node in ``status.nominatedNodeName`` when it has told victims there to go.
Until they are gone, no pod of lower priority may take what becomes free.
"""

from collections.abc import Iterator

from extender.cache.pods import PodState


class NominatedPods:
    """The nominated pods by node. Not locked: its owner is."""

    def __init__(self) -> None:
        self._where: dict[str, str] = {}
        self._by_node: dict[str, dict[str, PodState]] = {}

    def learn(self, pod: PodState) -> bool:
        """Take what a pod says now; returns whether it has given a node up."""
        node = pod.nominated if pod.placeable else ""
        left = self._where.get(pod.uid, node) != node and self.forget(pod.uid)
        if node:
            self._where[pod.uid] = node
            self._by_node.setdefault(node, {})[pod.uid] = pod
        return left

    def forget(self, uid: str) -> bool:
        """Forget a pod; returns whether it was to get a node."""
        node = self._where.pop(uid, "")
        if node:
            pods = self._by_node[node]
            del pods[uid]
            if not pods:
                del self._by_node[node]
        return bool(node)

    @property
    def nodes(self) -> Iterator[str]:
        """The nodes that a pod is nominated to."""
        return iter(self._by_node)

    def before(self, pod: PodState, node: str) -> list[PodState]:
        """Return the others that go first on a node: of the same priority or higher, highest first.

        Pods of equal priority don't push each other away, so each counts for the other, as in the
        scheduler's own check.
        """
        others = [
            other
            for other in self._by_node.get(node, {}).values()
            if other.uid != pod.uid and other.priority >= pod.priority
        ]
        return sorted(others, key=lambda other: (-other.priority, other.uid))
