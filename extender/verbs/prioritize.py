"""The verb prioritize: how much better one node is than another for a pod, 0 to 10.

The order is the policy's (`binpack` or `spread` as the pod has it): the first node gets 10, the
last one that fits 1, nodes that are alike the same, and 0 those that don't fit. A pod that asks
for no GPU is steered the other way: 10 for a node without cards, 0 for one with. Of many nodes only
what one gets more than the worst is written (`encode_priorities`).
"""

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.pods import PodState
from extender.verbs.deadline import Deadline
from extender.verbs.outcome import Outcome
from extender.verbs.pod_lookup import FindPod
from gpustack.model.equivalence import NodeResult
from gpustack.wire.extender_v1 import MOST, FilterArgs, encode_priorities


@dataclass(kw_only=True)
class Prioritize:
    """Answers `/scheduler/prioritize` and `/scheduler/priorities`; changes nothing."""

    cache: ClusterCache
    evaluator: NodeEvaluator
    find: FindPod

    def __call__(self, args: FilterArgs, deadline: Deadline) -> Outcome:
        """Rank the nodes, which decides nothing; the answer is a HostPriorityList.

        Raises:
            CannotDecide: the pod is gone, or the API server doesn't answer in time.
        """
        pod = self.find(args.pod, deadline)
        return Outcome(
            pod=pod, code="", answer=encode_priorities(args, self._scores(pod, args, deadline))
        )

    def _scores(self, pod: PodState, args: FilterArgs, deadline: Deadline) -> Iterable[int]:
        if pod.request is not None:
            results = self.evaluator.of(pod, args.names, deadline.search_time)
            return map(scores(results.different).__getitem__, results.answers)
        if pod.problem is not None:
            return itertools.repeat(0, len(args.names))
        return [0 if self._has_cards(name) else MOST for name in args.names]

    def _has_cards(self, name: str) -> bool:
        node = self.cache.base(name)
        return node is not None and bool(node.cards)


def scores(different: Collection[NodeResult]) -> Mapping[NodeResult, int]:
    """Return each answer's score by its place among the different ranks of those that fit."""
    ranks = sorted({each.rank for each in different if each.reason is None})
    steps = max(1, len(ranks) - 1)
    of_rank = {rank: MOST - (MOST - 1) * at // steps for at, rank in enumerate(ranks)}
    return {each: of_rank[each.rank] if each.reason is None else 0 for each in different}
