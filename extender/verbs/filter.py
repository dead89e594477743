"""The verb filter: on which nodes a pod fits now. No card is reserved; bind decides.

A pod that may have a node claims its part of its namespace's quota until it is bound: the scheduler
counts it on a node from now on, and may wait long before it asks for the binding (`quota_claims`).

Refusals are such that preemption can't solve (`preempt` is asked where a node's totals are short),
in fixed words, so that `kubectl describe pod` groups nodes by reason.
"""

import itertools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.node_results import NodeResults
from extender.cache.pods import PodState
from extender.cache.search_time import SearchTime
from extender.errors import CannotDecide
from extender.verbs.deadline import Deadline
from extender.verbs.outcome import FITS, NOT_OURS, Outcome, bad_request, refused
from extender.verbs.pod_lookup import FindPod
from extender.verbs.reserve import refuse_unplaceable
from gpustack.model.equivalence import REFUSED
from gpustack.model.quota.claim import Choice
from gpustack.model.refusal import Reason
from gpustack.wire.extender_v1 import FilterArgs, encode_filter_echo, encode_filter_result

_MOST_TRIES: Final = 20  # each one that fails finds less of the quota left


@dataclass(kw_only=True)
class Filter:
    """Answers `/scheduler/filter`.

    Attributes:
        on_refused: takes a pod that no node has room for, what each said, and the time that is
            left to search nodes.
        claim: counts what a pod may take of its quota; False where others were before it.
    """

    cache: ClusterCache
    evaluator: NodeEvaluator
    find: FindPod
    on_refused: Callable[[PodState, NodeResults, SearchTime], None]
    claim: Callable[[PodState, frozenset[Choice]], bool]

    def __call__(self, args: FilterArgs, deadline: Deadline) -> Outcome:
        """Decide on which nodes the pod fits; the answer is an ExtenderFilterResult.

        Raises:
            CannotDecide: nothing can be said about nodes: the pod is gone, gated, or bound
                already, or the API server doesn't answer in time.
        """
        pod = self.find(args.pod, deadline)
        if pod.problem is not None:
            refusals = [REFUSED[Reason.BAD_REQUEST]] * len(args.names)
            return bad_request(pod, pod.problem, _result(args, NodeResults(args.names, refusals)))
        if pod.request is None:
            return Outcome(pod=pod, code=NOT_OURS, answer=encode_filter_echo(args))
        refuse_unplaceable(pod)
        self.cache.expire()
        results = self._ask(pod, args, deadline)
        awaited = pod.nominated if self.cache.leaving(pod.nominated) else ""
        answer = _result(args, results, awaited)
        if results.fits:
            return Outcome(pod=pod, code=FITS, answer=answer, reasons=results.reasons())
        if not args.names:
            return Outcome(pod=pod, code="", answer=answer)
        self.on_refused(pod, results, deadline.search_time)
        return refused(pod, results, answer)

    def _ask(self, pod: PodState, args: FilterArgs, deadline: Deadline) -> NodeResults:
        """Ask the nodes, anew where others take the quota meanwhile, and let the pod claim.

        Raises:
            CannotDecide: others take it each time.
        """
        for _ in range(_MOST_TRIES):
            results = self.evaluator.of(pod, args.names, deadline.search_time)
            if self.claim(pod, results.choices):
                return results
        text = f"the quota of namespace {pod.namespace!r} changes faster than it can be looked at"
        raise CannotDecide("Busy", text)


def _result(args: FilterArgs, results: NodeResults, awaited: str = "") -> bytes:
    """Write the answer.

    A pod whose victims are still ending on its nominated node would be let loose on other nodes'
    pods if that node were said to be beyond help; the scheduler then waits for the victims.
    """
    if not results.refusals:
        return encode_filter_echo(args)
    # Thousands of nodes share a few answers: no line of Python is run for one of them.
    words = {each: each.words for each in results.refusals}
    fails = list(map(words.__contains__, results.answers))
    why = map(words.__getitem__, itertools.compress(results.answers, fails))
    unresolvable = dict(zip(itertools.compress(results.names, fails), why, strict=True))
    waits = awaited and awaited in unresolvable
    failed = {awaited: unresolvable.pop(awaited)} if waits else {}
    fitting = itertools.compress(results.names, map(operator.not_, fails))
    return encode_filter_result(args, chosen=fitting, failed=failed, unresolvable=unresolvable)
