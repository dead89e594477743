"""Where waiting pods would fit, let in one after another: a try-out that reserves nothing.

So that one card that became free makes one pod look again, and not the thousands that it fits.
"""

import collections

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.pods import PodState
from extender.cache.search_time import SearchTime
from gpustack.model.node import Node
from gpustack.model.placement import Placement, apply
from gpustack.model.quota.usage import Usage
from gpustack.model.request import PodRequest

Kind = tuple[PodRequest | None, str, int]
"""What pods that are alike have in common: what they ask, their namespace, their priority."""


def kind_of(pod: PodState) -> Kind:
    """Return what decides about room for a pod."""
    return pod.shape, pod.namespace, pod.priority


class RoomSimulation:
    """The cluster as it would be after the pods that were let in.

    Made of copies: what changes meanwhile is seen by the next one. Don't hold the cache's lock.
    Once the ``time`` is over, a node that isn't searched yet seems to have no room (`knows`).
    """

    def __init__(self, cache: ClusterCache, evaluator: NodeEvaluator, time: SearchTime) -> None:
        self._cache = cache
        self._evaluator = evaluator
        self._time = time
        self._unsearched: set[Kind] = set()
        self._names = sorted(cache.node_names)
        self._nodes: dict[str, Node] = {}  # those on which a pod was let in
        self._open: dict[Kind, collections.deque[str]] = {}
        self._usages: dict[str, Usage] = {}

    @property
    def opened(self) -> int:
        """How many different questions every node was asked."""
        return len(self._open)

    def hopeful(self, pod: PodState) -> bool:
        """Say whether there may be room for a pod; where not, there is none for its like."""
        return bool(self._open_to(pod))

    def knows(self, pod: PodState) -> bool:
        """Say whether every node was searched for a pod like this."""
        return self._kind(pod) not in self._unsearched

    def let_in(self, pod: PodState) -> bool:
        """Let a pod in where it would go first; returns whether there is room for it."""
        names = self._open_to(pod)
        tried = False
        while names and not (tried and self._time.is_over()):
            name, tried = names[0], True
            node = self._nodes.get(name) or self._evaluator.node(pod, name)
            if node is not None and pod.request is not None:
                usage = self._usage(pod)
                with self._time:
                    placement = self._evaluator.within_quota(pod, usage)(node, pod.request)
                if isinstance(placement, Placement):
                    self._nodes[name] = apply(node, placement)
                    usage.put(pod.uid, pod.namespace, pod.name, node, placement)
                    return True
            names.popleft()  # there is none for a pod that asks the same either
        return False

    def _open_to(self, pod: PodState) -> collections.deque[str]:
        kind = self._kind(pod)
        if kind not in self._open:
            results = self._evaluator.of(pod, self._names, self._time)
            self._open[kind] = collections.deque(name for name, _ in results.ranked())
            if results.unsearched:
                self._unsearched.add(kind)
        return self._open[kind]

    def _kind(self, pod: PodState) -> Kind:
        """Return a pod's kind without what doesn't matter now, so that fewer are looked at."""
        shape, namespace, priority = kind_of(pod)
        limited = self._cache.quota.of(namespace) is not None
        ranked = bool(self._cache.nominated_nodes)
        return shape, namespace if limited else "", priority if ranked else 0

    def _usage(self, pod: PodState) -> Usage:
        """Return what a pod's namespace holds, with those that were let in."""
        if pod.namespace not in self._usages:
            self._usages[pod.namespace] = self._cache.usage_of(pod.namespace)
        return self._usages[pod.namespace]
