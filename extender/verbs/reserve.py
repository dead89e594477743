"""The one place that chooses cards and reserves them, for the verbs bind and predicates."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.node_results import NodeResults
from extender.cache.pods import PodState
from extender.cache.search_time import SearchTime
from extender.errors import CannotDecide, Gone
from extender.requeue.requeue import Requeue
from gpustack.model.equivalence import NodeResult
from gpustack.model.placement import Placement
from gpustack.model.quota.check import check
from gpustack.model.refusal import Reason
from gpustack.model.verification import verify

_MOST_TRIES: Final = 20  # in turn: only the watches, and first tries of others, come in between


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was chosen for a pod.

    Attributes:
        pod: the pod as it was known at that moment.
        placement: its cards, reserved already; None when no node fits.
        time_ns: when they were reserved, Unix nanoseconds; it names the decision.
        results: what each node answered.
    """

    pod: PodState
    placement: Placement | None
    time_ns: int
    results: NodeResults


@dataclass
class Reserver:
    """Chooses cards that are free at the moment when they are reserved.

    Nodes are asked without the cache's lock, because a search may take long. Under the lock the
    chosen node's answer must be true still; else the nodes that have changed are asked again. Where
    that happens, others decide at the same time: then one decides after another.
    """

    cache: ClusterCache
    evaluator: NodeEvaluator
    requeue: Requeue
    retry_lock: threading.Lock = field(default_factory=threading.Lock)

    def choose(
        self, wanted: PodState, names: Sequence[str], time: SearchTime | None = None
    ) -> Choice:
        """Decide for a pod and reserve its cards on one of these nodes.

        A pod that has cards reserved on one of them keeps them while they suit it still. Without a
        ``time`` every node is searched.

        Raises:
            CannotDecide: the pod is gone, asks for nothing or badly, asks for something else by
                then, or may not be placed.
        """
        time = time or SearchTime()
        choice = self._try(wanted, names, time)
        if choice is None:
            with self.retry_lock:
                tries = (self._try(wanted, names, time) for _ in range(_MOST_TRIES))
                choice = next((each for each in tries if each is not None), None)
        if choice is None:
            text = f"what pod {wanted.full_name} may have changes faster than it can be looked at"
            raise CannotDecide("Busy", text)
        if choice.placement is None:
            self.requeue.refused(choice.pod, choice.results, time)
        return choice

    def _try(self, wanted: PodState, names: Sequence[str], time: SearchTime) -> Choice | None:
        """Decide, unless something has changed meanwhile that matters; then None."""
        self.cache.expire()
        pod = self._pod(wanted)
        before = self.cache.placement(pod.uid)
        results = self.evaluator.of(pod, names, time)
        held = self._held(pod, before, results)
        chosen: tuple[str, NodeResult | Placement] | None
        chosen = results.best() if held is None else (held.node, held)
        with self.cache.lock:
            now = self._pod(wanted)
            # Its user may change it all the time: no other waits for further tries.
            if now.request != pod.request:
                text = f"pod {pod.full_name} changed while its cards were chosen"
                raise CannotDecide("Busy", f"{text}; the scheduler will ask again")
            if self.cache.placement(pod.uid) is not before:
                return None
            if chosen is None:
                return Choice(pod=now, placement=None, time_ns=0, results=results)
            placement = self._still(now, chosen, results)
            if placement is None:
                return None
            self.requeue.settled(now.uid)
            time_ns = self.cache.assume(now.uid, placement)
            return Choice(pod=now, placement=placement, time_ns=time_ns, results=results)

    def _pod(self, wanted: PodState) -> PodState:
        pod = self.cache.pod(wanted.uid)
        if pod is None or not pod.ours:
            raise Gone(wanted.full_name, wanted.uid)
        refuse_unplaceable(pod)
        return pod

    def _held(
        self, pod: PodState, held: Placement | None, results: NodeResults
    ) -> Placement | None:
        """Return the cards that the pod has reserved, if they may be its own still."""
        if held is None or held.node not in results.names or pod.request is None:
            return None
        node = self.evaluator.node(pod, held.node)
        if node is None or verify(node, held, pod.request) is not None:
            return None
        with self.cache.lock:
            quota, usage = self.cache.quota, self.cache.usage
            no = check(quota, usage, pod.namespace, node, held, without=(pod.uid,))
        return held if no is None else None

    def _still(
        self, pod: PodState, chosen: tuple[str, NodeResult | Placement], results: NodeResults
    ) -> Placement | None:
        """Return what was chosen if it can be had at this moment; the cache's lock is held."""
        cache, (name, placement) = self.cache, chosen
        node = cache.base(name)
        if node is None or not self.evaluator.holds(pod, results, name):
            return None
        if isinstance(placement, NodeResult):  # not before: its node may have lost a card since
            placement = self.evaluator.placement(pod, name, placement)
        no = check(cache.quota, cache.usage, pod.namespace, node, placement, without=(pod.uid,))
        return placement if no is None else None


def refuse_unplaceable(pod: PodState) -> None:
    """Refuse a pod that may not be placed now.

    Raises:
        CannotDecide: it has ended, is being deleted, is gated or bound, or asks badly.
    """
    if pod.finished:
        raise CannotDecide("Finished", f"pod {pod.full_name} has finished")
    if pod.gated:
        raise CannotDecide("Gated", f"pod {pod.full_name} has spec.schedulingGates")
    if pod.node:
        raise CannotDecide("Bound", f"pod {pod.full_name} runs on node {pod.node} already")
    if pod.deletion:
        raise CannotDecide("Deleted", f"pod {pod.full_name} is being deleted")
    if pod.problem is not None:
        raise CannotDecide(Reason.BAD_REQUEST, f"pod {pod.full_name}: {pod.problem.message}")
