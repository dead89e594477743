"""The one place that decides and reserves, for whatever verb the scheduler came by."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.node_results import NodeResults
from extender.cache.pods import PodState
from extender.errors import CannotDecide, Gone
from extender.requeue.requeue import Requeue
from gpustack.model.equivalence import NodeResult
from gpustack.model.placement import Placement
from gpustack.model.quota.quota import forbids
from gpustack.model.verification import verify

_MOST_TRIES: Final = 20  # in turn: only the watches, and first tries of others, come in between


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An answer.

    Attributes:
        pod: the pod as it was known at that moment.
        placement: its cards, reserved already; None when no node fits.
        time_ns: when they were reserved, Unix nanoseconds; it names the decision.
        answers: what each node said.
    """

    pod: PodState
    placement: Placement | None
    time_ns: int
    answers: NodeResults


class Reserver:
    """Chooses cards that are free at the moment when they are reserved.

    Nodes are asked without the view's lock, because a search may take long. Under the lock the
    chosen node's answer must be true still; else the nodes that have changed are asked again. Where
    that happens, others decide at the same time: then one decides after another.
    """

    def __init__(self, view: ClusterCache, answers: NodeEvaluator, retry: Requeue) -> None:
        self._view = view
        self._answers = answers
        self._retry = retry
        self._turn = threading.Lock()

    def choose(self, asked: PodState, names: Sequence[str]) -> Choice:
        """Decide for a pod and reserve its cards on one of these nodes.

        A pod that has cards reserved on one of them keeps them while they suit it still.

        Raises:
            CannotDecide: the pod is gone, asks for nothing or badly, or may not be placed.
        """
        choice = self._try(asked, names)
        if choice is None:
            with self._turn:
                tries = (self._try(asked, names) for _ in range(_MOST_TRIES))
                choice = next((each for each in tries if each is not None), None)
        if choice is None:
            text = f"what pod {asked.full_name} may have changes faster than it can be looked at"
            raise CannotDecide("Busy", text)
        if choice.placement is None:
            self._retry.refused(choice.pod, choice.answers.rooms)
        return choice

    def _try(self, asked: PodState, names: Sequence[str]) -> Choice | None:
        """Decide, unless something has changed meanwhile that matters; then None."""
        self._view.expire()
        pod = self._pod(asked)
        before = self._view.placement(pod.uid)
        answers = self._answers.of(pod, names)
        held = self._held(pod, before, answers)
        chosen: tuple[str, NodeResult | Placement] | None
        chosen = answers.best() if held is None else (held.node, held)
        with self._view.lock:
            now = self._pod(asked)
            if now.request != pod.request or self._view.placement(pod.uid) is not before:
                return None
            if chosen is None:
                return Choice(pod=now, placement=None, time_ns=0, answers=answers)
            placement = self._still(now, chosen, answers)
            if placement is None:
                return None
            self._retry.settled(now.uid)
            time_ns = self._view.assume(now.uid, placement)
            return Choice(pod=now, placement=placement, time_ns=time_ns, answers=answers)

    def _pod(self, asked: PodState) -> PodState:
        pod = self._view.pod(asked.uid)
        if pod is None or not pod.ours:
            raise Gone(asked.full_name, asked.uid)
        refuse_unplaceable(pod)
        return pod

    def _held(
        self, pod: PodState, held: Placement | None, answers: NodeResults
    ) -> Placement | None:
        """Return the cards that the pod has reserved, if they may be its own still."""
        if held is None or held.node not in answers.names or pod.request is None:
            return None
        node = self._answers.node(pod, held.node)
        if node is None or verify(node, held, pod.request) is not None:
            return None
        with self._view.lock:
            quota, usage = self._view.quota, self._view.usage
            no = forbids(quota, usage, pod.namespace, node, held, without=(pod.uid,))
        return held if no is None else None

    def _still(
        self, pod: PodState, chosen: tuple[str, NodeResult | Placement], answers: NodeResults
    ) -> Placement | None:
        """Return what was chosen if it can be had at this moment; the view's lock is held."""
        view, (name, placement) = self._view, chosen
        node = view.base(name)
        if node is None or not self._answers.holds(pod, answers, name):
            return None
        if isinstance(placement, NodeResult):  # not before: its node may have lost a card since
            placement = self._answers.placement(pod, name, placement)
        no = forbids(view.quota, view.usage, pod.namespace, node, placement, without=(pod.uid,))
        return placement if no is None else None


def refuse_unplaceable(pod: PodState) -> None:
    """Refuse a pod that nobody may place now.

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
        raise CannotDecide("BadRequest", f"pod {pod.full_name}: {pod.problem.message}")
