"""What would let a waiting pod run: the smallest changes, found by search and proven by placing.

Every `Change` was tried: its `placement` is the answer of the very functions that decide, on the
changed pod or the changed cluster. A figure is the one nearest to what the pod asks: one unit
nearer, and it does not fit. Where no change is enough alone, more quota is tried beside each
(`more_quota.beside`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from gpustack.model.cluster.cluster import Cluster, Pod
from gpustack.model.equivalence import result_of
from gpustack.model.explain import (
    add_capacity,
    evict,
    lower_request,
    more_quota,
    relax_constraints,
)
from gpustack.model.explain.query import Change, Kind, Query
from gpustack.model.frozen import freeze
from gpustack.model.node import Node
from gpustack.model.place import place, within
from gpustack.model.placement import Placement, Placer
from gpustack.model.policies import EXACT, Policy
from gpustack.model.refusal import Refusal
from gpustack.model.request import PodRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Every node's answer to a pod, and what would change the answer.

    Attributes:
        answers: by node name, ascending; quota and the pod's demands of nodes counted in.
        choice: the node that comes first by the policy; empty where none has room.
        changes: at most one of each kind, in the order of `Kind`; empty for a pod that fits.
    """

    answers: Mapping[str, Placement | Refusal]
    choice: str = ""
    changes: tuple[Change, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "answers")

    @property
    def fits(self) -> bool:
        """True when some node has room."""
        return bool(self.choice)


def explain(
    cluster: Cluster, pod: Pod, policy: Policy = EXACT, go_on: Callable[[], None] = lambda: None
) -> Explanation:
    """Say why a pod that holds nothing waits, node by node, and what would let it run.

    ``go_on`` is asked before each time that the pod is placed, which may be very often; may raise.
    """

    def asked_on(placer: Placer) -> Placer:
        def placing(node: Node, wanted: PodRequest) -> Placement | Refusal:
            go_on()
            return placer(node, wanted)

        return placing

    placer = asked_on(partial(place, policy=policy))
    question = Query(
        cluster, pod, policy, placer, lambda *args, **options: asked_on(within(*args, **options))
    )
    answers = question.answers()
    fitting = {name: each for name, each in answers.items() if isinstance(each, Placement)}
    if fitting:
        return Explanation(answers=answers, choice=_first(question, fitting))
    if pod.demands.gates:
        return Explanation(answers=answers, changes=_without_gates(cluster, pod, policy, go_on))
    changes = _changes(question) or more_quota.beside(question, _changes)
    return Explanation(answers=answers, changes=changes)


def _changes(question: Query) -> tuple[Change, ...]:
    searches = (
        lower_request.search,
        relax_constraints.search,
        evict.search,
        add_capacity.search,
        more_quota.search,
    )
    return tuple(change for search in searches for change in search(question))


def _first(question: Query, fitting: Mapping[str, Placement]) -> str:
    nodes, request, policy = question.cluster.nodes, question.request, question.policy
    results = {name: result_of(nodes[name], request, policy, fitting[name]) for name in fitting}
    return min(results, key=lambda name: (results[name].rank, name))


def _without_gates(
    cluster: Cluster, pod: Pod, policy: Policy, go_on: Callable[[], None]
) -> tuple[Change, ...]:
    """Ask again without the pod's scheduling gates: until they go, nothing else matters."""
    free = replace(pod, demands=replace(pod.demands, gates=()))
    then = explain(cluster, free, policy, go_on)
    placement = then.answers.get(then.choice)
    if not isinstance(placement, Placement):
        return ()
    gates = pod.demands.gates
    change = Change(
        kind=Kind.GATES_REMOVED,
        text=f"the pod's scheduling gates are removed: {', '.join(gates)}",
        request=pod.request,
        placement=placement,
        names=gates,
    )
    return (change,)
