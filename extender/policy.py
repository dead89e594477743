"""The policy by its name; one that measures by what users ask learns that from the pods."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from gpustack.model import policies
from gpustack.model.policies.fragmentation import workload_of
from gpustack.model.request import PodRequest

_EVERY_SECONDS: Final = 600.0  # a change makes every node answer every question again


class PolicyKeeper:
    """Gives the answers their policy, and keeps its workload up to date."""

    def __init__(
        self,
        name: str,
        *,
        cache: ClusterCache,
        evaluator: NodeEvaluator,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Let the policy of this name hold.

        Raises:
            KeyError: no such policy.
        """
        self._name = name
        self._cache = cache
        self._evaluator = evaluator
        self._clock = clock
        self._next = float("-inf")
        evaluator.policy = policies.named(name)

    def renew(self) -> None:
        """Measure by the pods of now, if it is time: those that run and those that wait."""
        if self._name != policies.Fgd.name or self._clock() < self._next:
            return
        requests: Counter[PodRequest] = Counter()
        for pod in self._cache.pods:
            if pod.shape is not None and not pod.finished:
                requests[pod.shape] += 1
        if requests:
            self._next = self._clock() + _EVERY_SECONDS
            self._evaluator.policy = policies.named(self._name, workload_of(requests.items()))
