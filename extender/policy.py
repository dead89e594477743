"""The policy by its name; one that measures by what users ask learns that from the pods."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from gpustack.model import policies
from gpustack.model.policies.fragmentation import workload_of
from gpustack.model.request import PodRequest

_EVERY_SECONDS: Final = 600.0  # a change makes every node answer every question again


@dataclass
class PolicyKeeper:
    """Gives the answers the policy of this name, and keeps its workload up to date."""

    name: str
    cache: ClusterCache
    evaluator: NodeEvaluator
    clock: Callable[[], float]
    next_seconds: float = float("-inf")  # when, by the clock, the workload is counted again

    def __post_init__(self) -> None:
        self.evaluator.policy = policies.named(self.name)

    def renew(self) -> None:
        """Measure by the pods of now, if it is time: those that run and those that wait."""
        if self.name != policies.Fgd.name or self.clock() < self.next_seconds:
            return
        requests: Counter[PodRequest] = Counter()
        for pod in self.cache.pods:
            if pod.shape is not None and not pod.finished:
                requests[pod.shape] += 1
        if requests:
            self.next_seconds = self.clock() + _EVERY_SECONDS
            self.evaluator.policy = policies.named(self.name, workload_of(requests.items()))
