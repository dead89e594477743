"""The one place that decides and reserves, for whatever verb the scheduler came by."""

from collections.abc import Sequence
from dataclasses import dataclass

from extender.errors import CannotDecide, Gone
from extender.state.answered import Answered
from extender.state.answers import Answers
from extender.state.pods import PodState
from extender.state.view import ClusterView
from extender.writes.retry import Retry
from gpustack.model.holding import Placement
from gpustack.model.quota import check
from gpustack.model.verification import verify


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
    answers: Answered


class Chooser:
    """Chooses under the view's lock: nobody sees the room between an answer and its reservation."""

    def __init__(self, view: ClusterView, answers: Answers, retry: Retry) -> None:
        self._view = view
        self._answers = answers
        self._retry = retry

    def choose(self, asked: PodState, names: Sequence[str]) -> Choice:
        """Decide for a pod and reserve its cards on one of these nodes.

        A pod that has cards reserved on one of them keeps them while they suit it still.

        Raises:
            CannotDecide: the pod is gone, asks for nothing, or may not be placed.
        """
        with self._view.lock:
            self._view.expire()
            pod = self._view.pod(asked.uid)
            if pod is None or pod.request is None:
                raise Gone(asked.full_name, asked.uid)
            refuse_unplaceable(pod)
            answers = self._answers.of(pod, names)
            placement = self._held(pod, answers) or self._best(pod, answers)
            if placement is None:
                self._retry.refused(pod)
                return Choice(pod=pod, placement=None, time_ns=0, answers=answers)
            self._retry.settled(pod.uid)
            time_ns = self._view.assume(pod.uid, placement)
            return Choice(pod=pod, placement=placement, time_ns=time_ns, answers=answers)

    def _best(self, pod: PodState, answers: Answered) -> Placement | None:
        best = answers.best()
        return None if best is None else self._answers.placement(pod, *best)

    def _held(self, pod: PodState, answers: Answered) -> Placement | None:
        """Return the cards that the pod has reserved, if they may be its own still."""
        held = self._view.placement(pod.uid)
        if held is None or held.node not in answers.names or pod.request is None:
            return None
        node = self._answers.node(pod, held.node)
        if node is None or verify(node, held, pod.request) is not None:
            return None
        view = self._view
        no = check(view.quota, view.usage, pod.namespace, node, held, without=(pod.uid,))
        return held if no is None else None


def refuse_unplaceable(pod: PodState) -> None:
    """Refuse a pod that nobody may place now.

    Raises:
        CannotDecide: it has ended, is being deleted, is gated or bound.
    """
    if pod.finished:
        raise CannotDecide("Finished", f"pod {pod.full_name} has finished")
    if pod.gated:
        raise CannotDecide("Gated", f"pod {pod.full_name} has spec.schedulingGates")
    if pod.node:
        raise CannotDecide("Bound", f"pod {pod.full_name} runs on node {pod.node} already")
    if pod.deletion:
        raise CannotDecide("Deleted", f"pod {pod.full_name} is being deleted")
