"""Where waiting pods would fit, let in one after another: a try-out that reserves nothing.

So that one card that became free makes one pod look again, and not the thousands that it fits.
"""

import collections
from collections.abc import Callable

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
    Nodes are searched for a pod as long as the time of its namespace (``time_of``) goes. Once that
    is over, a node that isn't searched yet seems to have no room (`knows`), and no pod is let in,
    but for one of each namespace.
    """

    def __init__(
        self,
        cache: ClusterCache,
        evaluator: NodeEvaluator,
        time_of: Callable[[str], SearchTime],
    ) -> None:
        self._cache = cache
        self._evaluator = evaluator
        self._time_of = time_of
        self._tried: set[str] = set()  # namespaces
        self._unsearched: dict[Kind, set[str]] = {}  # with the namespaces whose time was over
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
        names, time = self._open_to(pod), self._time_of(pod.namespace)
        while names and not (pod.namespace in self._tried and time.is_over()):
            name = names[0]
            self._tried.add(pod.namespace)
            node = self._nodes.get(name) or self._evaluator.node(pod, name)
            if node is not None and pod.request is not None:
                usage = self._usage(pod)
                with time:
                    placement = self._evaluator.within_quota(pod, usage)(node, pod.request)
                if isinstance(placement, Placement):
                    self._nodes[name] = apply(node, placement)
                    usage.put(pod.uid, pod.namespace, pod.name, node, placement)
                    return True
            names.popleft()  # there is none for a pod that asks the same either
        return False

    def _open_to(self, pod: PodState) -> collections.deque[str]:
        kind, namespace = self._kind(pod), pod.namespace
        # Another namespace has time of its own for what this one's was over for.
        over = self._unsearched.get(kind, {namespace})
        if kind not in self._open or namespace not in over:
            results = self._evaluator.of(pod, self._names, self._time_of(namespace))
            self._open[kind] = collections.deque(name for name, _ in results.ranked())
            self._unsearched.pop(kind, None)
            if results.unsearched:
                self._unsearched[kind] = {*over, namespace}
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
