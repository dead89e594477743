"""The verb filter: on which nodes a pod fits now. Nothing is reserved; bind decides.

Refusals are such that preemption can't solve (`preempt` is asked where a node's totals are short),
in fixed words, so that `kubectl describe pod` groups nodes by reason.
"""

import itertools
import operator
from typing import Protocol

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.node_results import NodeResults
from extender.cache.pods import PodState
from extender.observability.outcome_recorder import OutcomeRecorder
from extender.verbs.pod_lookup import Deadline, PodFinder
from extender.verbs.reserve import refuse_unplaceable
from gpustack.model.equivalence import REFUSED
from gpustack.model.refusal import Reason
from gpustack.wire.extender_v1 import FilterArgs, encode_filter_echo, encode_filter_result


class Waiting(Protocol):
    """Who wants to know of pods that no node has room for."""

    def refused(self, pod: PodState, rooms: int) -> None:
        """Take one, and how often there had been room when it was refused."""


class Filter:
    """Answers `/scheduler/filter`."""

    def __init__(
        self,
        *,
        view: ClusterCache,
        answers: NodeEvaluator,
        asked: PodFinder,
        retry: Waiting,
        telling: OutcomeRecorder,
        decision_seconds: float,
    ) -> None:
        """Compose; ``decision_seconds`` bounds the read of a pod that no watch has shown."""
        self._view = view
        self._answers = answers
        self._asked = asked
        self._retry = retry
        self._telling = telling
        self._decision_seconds = decision_seconds

    def __call__(self, args: FilterArgs) -> bytes:
        """Return an ExtenderFilterResult.

        Raises:
            CannotDecide: nothing can be said about nodes: the pod is gone, gated, or bound
                already, or the API server doesn't answer in time.
        """
        pod = self._asked.find(args.pod, Deadline(self._decision_seconds))
        if pod.problem is not None:
            self._telling.badly_asked(pod, pod.problem)
            refused = [REFUSED[Reason.BAD_REQUEST]] * len(args.names)
            return _result(args, NodeResults(args.names, refused))
        if pod.request is None:
            self._telling.not_ours()
            return encode_filter_echo(args)
        refuse_unplaceable(pod)
        self._view.expire()
        answers = self._answers.of(pod, args.names)
        if answers.fits:
            self._telling.fits(pod, answers)
        elif answers.answers:
            self._retry.refused(pod, answers.rooms)
            self._telling.refused(pod, answers)
        awaited = pod.nominated if self._makes_room(pod.nominated) else ""
        return _result(args, answers, awaited)

    def _makes_room(self, name: str) -> bool:
        """Say whether pods that hold cards of a node are on their way out."""
        holders = map(self._view.pod, self._view.holders(name)) if name else ()
        return any(holder is not None and holder.deletion for holder in holders)


def _result(args: FilterArgs, said: NodeResults, awaited: str = "") -> bytes:
    """Write the answer.

    A pod whose victims are still ending on its nominated node would be let loose on other nodes'
    pods if that node were said to be beyond help; the scheduler then waits for the victims.
    """
    if not said.refusals:
        return encode_filter_echo(args)
    # Thousands of nodes share a few answers: no line of Python is run for one of them.
    words = {each: each.words for each in said.refusals}
    refused = list(map(words.__contains__, said.answers))
    why = map(words.__getitem__, itertools.compress(said.answers, refused))
    unresolvable = dict(zip(itertools.compress(said.names, refused), why, strict=True))
    waits = awaited and awaited in unresolvable
    failed = {awaited: unresolvable.pop(awaited)} if waits else {}
    fitting = itertools.compress(said.names, map(operator.not_, refused))
    return encode_filter_result(args, chosen=fitting, failed=failed, unresolvable=unresolvable)
