"""The verb of the seeds' scheduler policy: choose one node, reserve its cards, write it down.

kube-scheduler calls it as its last filter. The answer is one node, whose cards stand on the pod
before the answer is given. A pod that comes again (its binding failed, or the scheduler didn't
wait for us) gets the same cards while they still suit it, and other ones when they don't.
"""

import collections
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from extender.errors import CannotDecide
from extender.events import EventRecorder, PodEvent
from extender.pods import PodState
from extender.retry import RetryQueue
from extender.turns import Turns
from extender.view import ClusterView
from extender.writer import PodWriter
from gpustack.adapters import kube
from gpustack.model.explanation import REASON_WORDS, Reason, Refusal
from gpustack.model.placement import Placement, place, rank
from gpustack.model.request import BadRequest, PodRequest
from gpustack.model.verification import verify
from gpustack.wire.extender_bodies import FilterArgs, encode_filter_echo, encode_filter_result

logger = logging.getLogger(__name__)

_NODES_IN_EVENT: Final = 5
_ANOTHER_POD: Final = 422  # the UID in a patch is immutable, and another pod has the name now


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """An answer: a placement that is reserved already, or every node's refusal."""

    placement: Placement | None
    time_ns: int
    refusals: Mapping[str, Refusal]


class Predicates:
    """Answers `/scheduler/predicates`."""

    def __init__(
        self,
        *,
        view: ClusterView,
        writer: PodWriter,
        events: EventRecorder,
        retry: RetryQueue,
        count: Callable[[str], None],
        decision_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Compose; ``count`` is told the code of every outcome."""
        self._view = view
        self._writer = writer
        self._events = events
        self._retry = retry
        self._count = count
        self._decision_seconds = decision_seconds
        self._clock = clock
        self._turns = Turns()

    def __call__(self, args: FilterArgs) -> bytes:
        """Return an ExtenderFilterResult.

        Raises:
            CannotDecide: nothing can be said about nodes: the pod is gone, gated, or bound
                already, or the API server doesn't answer in time.
        """
        deadline = self._clock() + self._decision_seconds
        pod = self._find(args, deadline)
        if pod.problem is not None:
            return self._refuse_badly_asked(args, pod, pod.problem)
        if pod.request is None:
            self._count("NotOurs")
            return encode_filter_echo(args)
        with self._turns.of(pod.uid, timeout_seconds=self._left(deadline)):
            choice = self._choose(args, pod.uid)
            if choice.placement is None:
                return self._refuse(args, pod, choice.refusals)
            self._write(pod, choice.placement, choice.time_ns, deadline)
        self._count("Placed")
        self._tell_placed(pod, choice.placement)
        return _answer(args, [choice.placement.node], choice.refusals)

    def _find(self, args: FilterArgs, deadline: float) -> PodState:
        """Return our own knowledge of the body's pod: the body may lack what decides."""
        asked = args.pod
        pod = self._view.pod(asked.uid)
        if pod is None:
            value = self._writer.read(asked, timeout_seconds=self._left(deadline))
            pod = self._view.add_pod(value) if value is not None else None
        if pod is None:
            name = f"{asked.namespace}/{asked.name}"
            raise CannotDecide("Gone", f"pod {name} with UID {asked.uid} is gone")
        return pod

    def _left(self, deadline: float) -> float:
        left = deadline - self._clock()
        if left <= 0:
            raise CannotDecide("TooLate", f"no decision within {self._decision_seconds:g} s")
        return left

    def _choose(self, args: FilterArgs, uid: str) -> _Choice:
        """Decide and reserve in one step: nobody sees the room in between."""
        with self._view.lock:
            self._view.expire()
            pod = self._view.pod(uid)
            if pod is None or pod.request is None:
                raise CannotDecide("Gone", "the pod is gone")
            _refuse_unplaceable(pod)
            refusals: dict[str, Refusal] = {}
            placement = self._answer_again(args, pod, pod.request)
            if placement is None:
                placement, refusals = self._answer_anew(args, pod, pod.request)
            if placement is None:
                self._retry.refused(pod)
                return _Choice(placement=None, time_ns=0, refusals=refusals)
            self._retry.settled(uid)
            time_ns = self._view.assume(uid, placement)
            return _Choice(placement=placement, time_ns=time_ns, refusals=refusals)

    def _answer_again(
        self, args: FilterArgs, pod: PodState, request: PodRequest
    ) -> Placement | None:
        """Return the cards that the pod has reserved, if the scheduler offers their node still."""
        held = self._view.placement(pod.uid)
        if held is None or held.node not in args.names:
            return None
        node = self._view.node(held.node, without=pod.uid)
        if node is None or verify(node, held, request) is not None:
            return None
        return held

    def _answer_anew(
        self, args: FilterArgs, pod: PodState, request: PodRequest
    ) -> tuple[Placement | None, dict[str, Refusal]]:
        refusals: dict[str, Refusal] = {}
        nodes = {}
        for name in args.names:
            node = self._view.node(name, without=pod.uid)
            if node is None:
                refusals[name] = Refusal(reason=Reason.NODE_UNKNOWN)
            else:
                nodes[name] = node
        ranked = rank(nodes.values(), request)
        for name in nodes.keys() - {node.name for node, _ in ranked}:
            answer = place(nodes[name], request)
            if isinstance(answer, Refusal):
                refusals[name] = answer
        return (ranked[0][1] if ranked else None), refusals

    def _write(self, pod: PodState, placement: Placement, time_ns: int, deadline: float) -> None:
        """Put the decision on the pod; what wasn't written is not reserved any more."""
        try:
            left = self._left(deadline)
        except CannotDecide:
            self._view.forget(pod.uid, time_ns)
            raise
        try:
            written = self._writer.write_decision(pod, placement, time_ns, timeout_seconds=left)
        except kube.KubeError as error:
            if error.not_found or error.status == _ANOTHER_POD:
                self._view.remove_pod(pod.uid)
                raise CannotDecide("Gone", f"pod {pod.full_name} is gone") from error
            if not error.retryable:
                self._view.forget(pod.uid, time_ns)
            raise CannotDecide("WriteFailed", f"pod {pod.full_name}: {error}") from error
        except kube.KubeUnavailable as error:
            # It may stand on the pod, so the cards stay reserved until the watch or time tells;
            # so they do after an error of the server's own (500, 504) above.
            raise CannotDecide("WriteFailed", f"pod {pod.full_name}: {error}") from error
        self._view.add_pod(written)
        logger.info("placed pod=%s node=%s", pod.full_name, placement.node)

    def _refuse_badly_asked(self, args: FilterArgs, pod: PodState, problem: BadRequest) -> bytes:
        self._count(Reason.BAD_REQUEST)
        self._tell(pod, Reason.BAD_REQUEST, problem.message)
        refusal = Refusal(reason=Reason.BAD_REQUEST, detail=problem.message)
        return _answer(args, [], dict.fromkeys(args.names, refusal))

    def _refuse(self, args: FilterArgs, pod: PodState, refusals: Mapping[str, Refusal]) -> bytes:
        counts = collections.Counter(refusal.reason for refusal in refusals.values())
        most = min(counts, key=lambda reason: (-counts[reason], reason)) if counts else None
        code = most if most is not None else Reason.NO_CARDS
        self._count(code)
        details = [
            f"{name}: {refusal.detail or REASON_WORDS[refusal.reason]}"
            for name, refusal in sorted(refusals.items())[:_NODES_IN_EVENT]
        ]
        more = len(refusals) - len(details)
        if more > 0:
            details.append(f"and {more} more")
        self._tell(pod, code, f"no node of {len(refusals)} fits: " + "; ".join(details))
        return _answer(args, [], refusals)

    def _tell_placed(self, pod: PodState, placement: Placement) -> None:
        cards = "; ".join(
            f"container {each.name}: GPU {','.join(map(str, each.minors))}"
            for each in placement.containers
        )
        message = f"reserved on {placement.node}: {cards}"
        self._tell(pod, "GPUReserved", message, warning=False)

    def _tell(self, pod: PodState, reason: str, message: str, *, warning: bool = True) -> None:
        self._events.record(
            PodEvent(
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                reason=reason,
                message=message,
                warning=warning,
            )
        )


def _refuse_unplaceable(pod: PodState) -> None:
    if pod.finished:
        raise CannotDecide("Finished", f"pod {pod.full_name} has finished")
    if pod.gated:
        raise CannotDecide("Gated", f"pod {pod.full_name} has spec.schedulingGates")
    if pod.node:
        raise CannotDecide("Bound", f"pod {pod.full_name} runs on node {pod.node} already")


def _answer(args: FilterArgs, chosen: list[str], refusals: Mapping[str, Refusal]) -> bytes:
    words = {
        name: f"{refusal.reason}: {REASON_WORDS[refusal.reason]}"
        for name, refusal in refusals.items()
    }
    # Schedulers before 1.21 read only FailedNodes; later ones let the other field win.
    return encode_filter_result(args, chosen=chosen, failed=words, unresolvable=words)
