"""The verb prioritize: how much better one node is than another for a pod, 0 to 10.

The order is the policy's (`binpack` or `spread` as the pod has it): the first node gets 10, the
last one that fits 1, nodes that are alike the same, and 0 those that don't fit. A pod that asks
for no GPU is steered the other way: 10 for a node without cards, 0 for one with. Of many nodes only
what one gets more than the worst is written (`encode_priorities`).
"""

import itertools
from collections.abc import Collection, Mapping

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.verbs.pod_lookup import Deadline, PodFinder
from gpustack.model.equivalence import NodeResult
from gpustack.wire.extender_v1 import MOST, FilterArgs, encode_priorities


class Prioritize:
    """Answers `/scheduler/prioritize` and `/scheduler/priorities`; changes nothing."""

    def __init__(
        self,
        *,
        view: ClusterCache,
        answers: NodeEvaluator,
        asked: PodFinder,
        decision_seconds: float,
    ) -> None:
        """Compose; ``decision_seconds`` bounds the read of a pod that no watch has shown."""
        self._view = view
        self._answers = answers
        self._asked = asked
        self._decision_seconds = decision_seconds

    def __call__(self, args: FilterArgs) -> bytes:
        """Return a HostPriorityList.

        Raises:
            CannotDecide: the pod is gone, or the API server doesn't answer in time.
        """
        pod = self._asked.find(args.pod, Deadline(self._decision_seconds))
        if pod.request is not None:
            said = self._answers.of(pod, args.names)
            return encode_priorities(args, map(scores(said.different).__getitem__, said.answers))
        if pod.problem is not None:
            return encode_priorities(args, itertools.repeat(0, len(args.names)))
        cards = [self._has_cards(name) for name in args.names]
        return encode_priorities(args, (0 if has else MOST for has in cards))

    def _has_cards(self, name: str) -> bool:
        node = self._view.base(name)
        return node is not None and bool(node.cards)


def scores(different: Collection[NodeResult]) -> Mapping[NodeResult, int]:
    """Return each answer's score by its place among the different ranks of those that fit."""
    ranks = sorted({each.rank for each in different if each.reason is None})
    steps = max(1, len(ranks) - 1)
    of_rank = {rank: MOST - (MOST - 1) * at // steps for at, rank in enumerate(ranks)}
    return {each: of_rank[each.rank] if each.reason is None else 0 for each in different}
