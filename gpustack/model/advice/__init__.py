"""What would let a waiting pod run: the smallest changes, found by search and proven by placing.

A refusal says what stands in the way; this says what to do about it. Every `Change` was tried: its
`placement` is the answer of the very functions that decide, on the changed pod or the changed
cluster. What has a figure is the figure nearest to what the pod asks: one unit nearer, and it does
not fit.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gpustack.model.advice import amounts, conditions, supply, waiting
from gpustack.model.advice.question import Change, Kind, Pending, Question
from gpustack.model.cluster import Cluster
from gpustack.model.explanation import Refusal
from gpustack.model.holding import Placement
from gpustack.model.placement import place
from gpustack.model.quota import Placer

__all__ = ["Change", "Explanation", "Kind", "Pending", "explain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Every node's answer to a pod, and what would change the answer.

    Attributes:
        answers: by node name, ascending; quota counted in.
        changes: at most one of each kind, in the order of `Kind`; empty for a pod that fits.
    """

    answers: Mapping[str, Placement | Refusal]
    changes: tuple[Change, ...]

    @property
    def fits(self) -> bool:
        """True when some node has room."""
        return any(isinstance(answer, Placement) for answer in self.answers.values())


def explain(cluster: Cluster, pod: Pending, placer: Placer = place) -> Explanation:
    """Say why a pod that holds nothing waits, node by node, and what would let it run."""
    question = Question(cluster, pod, placer)
    answers = question.answers()
    if any(isinstance(answer, Placement) for answer in answers.values()):
        return Explanation(answers=answers, changes=())
    found = [
        change
        for search in (amounts.search, conditions.search, waiting.search, supply.search)
        for change in search(question)
    ]
    order = list(Kind)
    changes = tuple(sorted(found, key=lambda change: order.index(change.kind)))
    return Explanation(answers=answers, changes=changes)
