"""The verb preempt: which pods must end so that one of higher priority gets its cards.

kube-scheduler asks where a node's totals are short, with the pods that it would end. Totals say
nothing about single cards, so of the pods that hold cards the fewest are named whose end frees the
cards that are needed (`model.preemption`). Proposed pods that hold no card stay: what they free,
we don't know. A node on which no set helps is left out, as is one without any victim, which the
scheduler would take for an error. So is a node where room comes by itself, because pods end there
that aren't less important: those can't be named, and no other pod needs to end. A pod that
has more than ten minutes to end, or hasn't ended in ten, may run on for ever: nobody waits for it
where others help, on its node or on another.

A namespace's questions have a part of the time together (`preempt_turns`); after one that ended
early, the next one begins at the node that it had no time for.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.pod_disruption_budgets import PodDisruptionBudgets
from extender.cache.pods import PodState
from extender.verbs.deadline import Deadline
from extender.verbs.outcome import NOT_OURS, Outcome, bad_request
from extender.verbs.pod_lookup import FindPod
from extender.verbs.preempt_turns import PreemptTurns
from gpustack.model.cluster.cluster import Tenant
from gpustack.model.lru import LRUCache
from gpustack.model.node import Node
from gpustack.model.place import within
from gpustack.model.placement import Placement
from gpustack.model.request import PodRequest
from gpustack.model.search.preemption import (
    MOST_TRIES,
    Candidate,
    Fits,
    Leaving,
    TimeOver,
    victims,
    without,
)
from gpustack.wire.extender_v1 import NodeVictims, PreemptionArgs, encode_preemption_result
from gpustack.wire.kube.pod_disruption_budget import Budgets, violating

logger = logging.getLogger(__name__)

# A question costs some 0.1 ms; the scheduler proposes a tenth of the nodes, and at least 100.
_TRIES: Final = 20_000
_FEWEST_TRIES: Final = 50
_LOWEST: Final = -(1 << 31)
_NAMES_BYTES: Final = 1024  # of a namespace and a node


@dataclass(frozen=True, slots=True)
class _Limits:
    """What protects pods, and how long a node's are compared: so many sets, until a moment."""

    budgets: Budgets
    tries: int
    deadline: Deadline
    until: float

    def go_on(self) -> None:
        """Raise `TimeOver` after that moment, and after the deadline."""
        if self.deadline.over or self.deadline.clock() >= self.until:
            raise TimeOver


@dataclass(kw_only=True)
class Preempt:
    """Answers `/scheduler/preempt`.

    Attributes:
        turns: the time of each namespace's questions; None: only their deadlines count.
    """

    cache: ClusterCache
    evaluator: NodeEvaluator
    find: FindPod
    budgets: PodDisruptionBudgets
    turns: PreemptTurns | None = None
    # The node at which a namespace's next question begins.
    _first: LRUCache[str, str] = field(default_factory=lambda: LRUCache(1 << 20), init=False)

    def __call__(self, args: PreemptionArgs, deadline: Deadline) -> Outcome:
        """Name the pods that must end; the answer is an ExtenderPreemptionResult.

        Raises:
            CannotDecide: the pod is gone, or the API server doesn't answer in time.
        """
        pod = self.find(args.pod, deadline)
        self.cache.claim(pod)  # no node takes it, or the scheduler would not ask
        if pod.problem is not None:
            return bad_request(pod, pod.problem, encode_preemption_result({}))
        proposed = {name: each for name, each in args.victims.items() if each.uids}
        if pod.request is None:
            return Outcome(pod=pod, code=NOT_OURS, answer=encode_preemption_result(proposed))
        found, ended_early = self._answer(pod, proposed, deadline)
        rest = "; the time for it was over then" if ended_early else ""
        return Outcome(
            pod=pod,
            code="Preempting" if found else "NoVictims",
            answer=encode_preemption_result(found),
            message=f"victims are named on {len(found)} of {len(proposed)} nodes{rest}",
        )

    def _answer(
        self, pod: PodState, proposed: dict[str, NodeVictims], deadline: Deadline
    ) -> tuple[dict[str, NodeVictims], bool]:
        """Return the victims by node, and whether some nodes weren't looked at."""
        tries = max(_FEWEST_TRIES, min(MOST_TRIES, _TRIES // max(1, len(proposed))))
        began = deadline.clock()
        seconds = math.inf if self.turns is None else self.turns.seconds(pod.namespace)
        limits = _Limits(self.budgets.now, tries, deadline, began + seconds)
        answer: dict[str, NodeVictims] = {}
        ended_early = not seconds
        first = self._first.get(pod.namespace) or ""
        order = sorted(proposed, key=lambda name: (name < first, name)) if seconds else []
        for at, name in enumerate(order):
            try:
                victims_there = self._of_node(pod, name, proposed[name], limits)
            except TimeOver:
                # One that takes more time than a question has is passed over.
                self._first.put(pod.namespace, order[at or 1 % len(order)], _NAMES_BYTES)
                ended_early = True
                break
            if victims_there is not None:
                answer[name] = victims_there
        if ended_early:
            logger.warning("preemption looked at some nodes only pod=%s", pod.full_name)
        if self.turns is not None:
            self.turns.used(pod.namespace, deadline.clock() - began)
            if ended_early and not answer:
                self.turns.again(pod)
        soon = {name: each for name, each in answer.items() if not self._is_slow(each)}
        return soon or answer, ended_early

    def _is_slow(self, named: NodeVictims) -> bool:
        """Say whether one of these pods may run on for ever."""
        found = map(self.cache.pod, named.uids)
        return any(pod is not None and self.cache.is_slow(pod) for pod in found)

    def _of_node(
        self,
        pod: PodState,
        name: str,
        proposed: NodeVictims,
        limits: _Limits,
    ) -> NodeVictims | None:
        state = self.evaluator.node_and_holders(pod, name)
        if state is None or pod.request is None:
            return None
        node, held = state
        fits = self._fits(pod, pod.request, node, limits)
        if fits(()):
            return proposed  # the cards are there; it is something else that the node lacks
        candidates, slow, going = self._candidates(pod, name, held, proposed, limits)
        ending = tuple(each for each in candidates if each.ending)
        if going and not fits(ending) and fits(ending + going):
            return None
        found = victims(candidates, fits, most_tries=limits.tries)
        everybody = [*candidates, *slow]
        if found is None and slow:
            found = victims(everybody, fits, most_tries=limits.tries)
        return None if found is None else _merged(proposed, everybody, found.pods)

    def _fits(self, pod: PodState, request: PodRequest, node: Node, limits: _Limits) -> Fits:
        """Return whether the pod fits, quota included, once some pods have ended.

        Each call is a search; after the deadline it raises `TimeOver`.
        """
        quota, usage = self.cache.quota, self.cache.usage_of(pod.namespace)
        policy, left = self.evaluator.policy, without(node)

        def fits(leaving: Leaving) -> bool:
            limits.go_on()
            gone = (pod.uid, *(each.tenant.uid for each in leaving))
            place_here = within(quota, usage, pod.namespace, policy, without=gone)
            return isinstance(place_here(left(leaving), request), Placement)

        return fits

    def _candidates(
        self,
        pod: PodState,
        name: str,
        held: Mapping[str, Placement],
        proposed: NodeVictims,
        limits: _Limits,
    ) -> tuple[Leaving, Leaving, Leaving]:
        """Return the pods that may end: bound ones of lower priority, and those proposed.

        Those of them that end slowly stand apart, and so do those that end soon though they are as
        important.
        """
        lower, going = [], []
        for uid in held.keys() - {pod.uid}:
            holder = self.cache.pod(uid)
            if holder is None:
                continue
            if uid in proposed.uids or (holder.node == name and holder.priority < pod.priority):
                lower.append(holder)
            elif holder.node == name and holder.deletion and not self.cache.is_slow(holder):
                going.append(holder)
        lower.sort(key=lambda each: (-each.priority, _since(each), each.uid))
        protected = violating(lower, limits.budgets, limits.go_on)

        def candidate(each: PodState) -> Candidate:
            return Candidate(
                tenant=Tenant(
                    uid=each.uid,
                    namespace=each.namespace,
                    name=each.name,
                    placement=held[each.uid],
                ),
                priority=each.priority,
                started=_since(each),
                protected=each.uid in protected and not each.deletion,
                proposed=each.uid in proposed.uids,
                ending=each.deletion,
            )

        return (
            tuple(candidate(each) for each in lower if not self.cache.is_slow(each)),
            tuple(candidate(each) for each in lower if self.cache.is_slow(each)),
            tuple(candidate(each) for each in going),
        )


def _since(pod: PodState) -> int:
    """Return when a pod came to its node, Unix nanoseconds: when that was decided."""
    return pod.decision.time_ns if pod.decision is not None else 0


def _merged(proposed: NodeVictims, candidates: Sequence[Candidate], chosen: Leaving) -> NodeVictims:
    """Put the chosen pods in place of those proposed ones that hold cards.

    How many violations are those of pods that hold no card, only the scheduler knows: what is left
    of its number after ours.
    """
    known = {each.tenant.uid: each for each in candidates}
    theirs = sum(each.protected for each in candidates if each.proposed)
    ranked = [(-each.priority, each.tenant.uid) for each in chosen]
    # The scheduler names the most important pod first and compares nodes by it, so a pod that we
    # know nothing of stays before the next proposed one that we know.
    below = _LOWEST
    for uid in reversed(proposed.uids):
        if uid in known:
            below = max(below, known[uid].priority)
        else:
            ranked.append((-below, uid))
    order = {uid: at for at, uid in enumerate(proposed.uids)}
    ranked.sort(key=lambda each: (each[0], order.get(each[1], len(order))))
    return NodeVictims(
        uids=tuple(uid for _, uid in ranked),
        pdb_violations=max(0, proposed.pdb_violations - theirs)
        + sum(each.protected for each in chosen),
    )
