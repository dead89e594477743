"""The verb bind: the scheduler has chosen the node; we choose its cards, and bind.

Cards are chosen once more, on what is known now: between filter and bind another pod may have
taken them. Then the scheduler is told so; it backs off (a second at first) and asks again. Pod,
node and cards become true in one call to the API server, which does it for the very pod that was
looked at (UID and resourceVersion) or not at all. Where that call's answer is lost, the pod is
read again: it is bound by then, or it is tried again while there is time. A binding without an
answer may be carried out later on; before cards are chosen once more, or the reserved ones are
taken back, a change of the pod makes that impossible.
"""

import logging
from dataclasses import dataclass, field, replace
from typing import Final

from extender.apiserver.keyed_lock import KeyedLock
from extender.apiserver.writer import PodWriter
from extender.cache.cache import ClusterCache
from extender.cache.consistent_read import ConsistentRead
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.pods import PodState
from extender.errors import CannotDecide, Gone
from extender.verbs.deadline import Deadline
from extender.verbs.outcome import BOUND, Outcome
from extender.verbs.pod_lookup import PodLookup
from extender.verbs.reserve import Reserver, refuse_unplaceable
from gpustack.adapters import kube
from gpustack.model.placement import Placement
from gpustack.wire.annotations import Decision
from gpustack.wire.extender_v1 import BindingArgs, encode_binding_result

logger = logging.getLogger(__name__)

_MOST_TRIES: Final = 5
_WRITE_PART: Final = 0.6  # of the time that is left; the rest is for finding out what happened
_FENCE_SECONDS: Final = 1.0


@dataclass(slots=True, kw_only=True)
class _Held:
    """What one request has reserved.

    Attributes:
        time_ns: names the decision, Unix nanoseconds; 0 when nothing is reserved.
        problem: why the last try came to nothing.
    """

    time_ns: int = 0
    problem: str = ""


@dataclass(kw_only=True)
class Bind:
    """Answers `/scheduler/bind`."""

    cache: ClusterCache
    evaluator: NodeEvaluator
    lookup: PodLookup
    reserver: Reserver
    consistent_read: ConsistentRead
    writer: PodWriter
    pod_locks: KeyedLock = field(default_factory=KeyedLock)

    def __call__(self, args: BindingArgs, deadline: Deadline) -> Outcome:
        """Bind a pod; one that is bound there is bound. The answer is an ExtenderBindingResult.

        Raises:
            CannotDecide: it isn't bound, and says why. Nothing is reserved then, unless the API
                server may still carry out what it gave no answer to.
        """
        with self.pod_locks.of(args.pod.uid, timeout_seconds=deadline.left()):
            pod = self.lookup.find(args.pod, deadline)
            pod = self.lookup.settled(pod, deadline)
            held = _Held()
            try:
                return self._bind(args, pod, held, deadline)
            except CannotDecide:
                if not self._bound_after_all(pod, args.node, held):
                    self.cache.claim(pod)  # the scheduler gives its node up, and asks anew
                    raise
                return _bound_before(pod)

    def _bind(self, args: BindingArgs, pod: PodState, held: _Held, deadline: Deadline) -> Outcome:
        for _ in range(_MOST_TRIES):
            if _is_bound(pod, args.node):
                return _bound_before(pod)
            outcome = self._try(pod, args.node, held, deadline)
            if outcome is not None:
                return outcome
            pod = self.lookup.settled(self.lookup.read(args.pod, deadline), deadline)
        text = f"pod {pod.full_name} was not bound in {_MOST_TRIES} tries: {held.problem}"
        raise CannotDecide("WriteFailed", text)

    def _try(self, pod: PodState, node: str, held: _Held, deadline: Deadline) -> Outcome | None:
        """Choose and bind; None when only another look at the pod tells what has happened.

        Raises:
            CannotDecide: it isn't bound, and trying again now would change nothing.
        """
        refuse_unplaceable(pod)
        placement: Placement | None = None
        if pod.request is not None:
            pod, placement = self._choose(pod, node, held, deadline)
        annotations: dict[str, str] = {}
        try:
            if placement is not None:
                annotations = self.writer.annotations(placement, held.time_ns)
                if self._clear_strangers(pod, annotations, held, deadline):
                    return None
            self.writer.bind(pod, node, annotations, timeout_seconds=_WRITE_PART * deadline.left())
        except kube.KubeError as error:
            self._refused(pod, error, held)
            return None
        except kube.KubeUnavailable as error:
            self._unanswered(pod, error, held)
            return None
        if placement is not None:
            self._remember(pod, placement, held)
        return Outcome(
            pod=pod,
            code=BOUND,
            answer=encode_binding_result(),
            node=node,
            placement=placement,
            reasons={None: 1},
        )

    def _remember(self, pod: PodState, placement: Placement, held: _Held) -> None:
        """Let the pod count as bound before the watch shows it."""
        node = placement.node
        # No version of the pod lies between the one that was named and the bound one.
        written = Decision(node=node, time_ns=held.time_ns, assigned=False, placement=placement)
        self.cache.add_pod(replace(pod, node=node, decision=written))
        self.consistent_read.wrote()

    def _choose(
        self, pod: PodState, node: str, held: _Held, deadline: Deadline
    ) -> tuple[PodState, Placement]:
        """Reserve cards of the node for the pod; returns the pod as it is known by then."""
        # Only a node that is known: a name from a request's body leads to no path of the API.
        if self.cache.base(node) is not None and self.consistent_read.due(node, pod.namespace):
            self.consistent_read.read(
                node,
                pod.namespace,
                timeout=deadline.left,
                change_pod=lambda: self.lookup.change(pod, deadline),
            )
        time = deadline.search_time
        if time.is_over():
            time.prolong()  # the pod was let pass, and only this node may have changed since
        choice = self.reserver.choose(pod, (node,), time)
        if choice.placement is not None:
            held.time_ns = choice.time_ns
            return choice.pod, choice.placement
        refusal = self.evaluator.refusal(choice.pod, node)
        said = choice.results.of(node).words
        numbers = f" ({refusal.detail})" if refusal is not None and refusal.detail else ""
        raise CannotDecide(
            "Overtaken",
            f"pod {pod.full_name} does not fit on node {node} any more: {said}{numbers}; "
            "the scheduler will ask again",
        )

    def _clear_strangers(
        self, pod: PodState, annotations: dict[str, str], held: _Held, deadline: Deadline
    ) -> bool:
        """Remove cards that stand on the pod and aren't ours: a binding only adds.

        All of them: what was left would be a decision, and newer than the one to be written.
        Returns whether there were any, which makes another version of the pod.

        Raises:
            CannotDecide: whether they were removed is unknown.
            KubeError: they were not.
        """
        if set(pod.decision_keys) <= annotations.keys():
            return False
        seconds = _WRITE_PART * deadline.left()
        try:
            cleared = self.writer.clear_decision(pod, timeout_seconds=seconds)
        except (kube.KubeError, kube.KubeUnavailable) as error:
            if isinstance(error, kube.KubeError) and error.status < 500:
                raise
            # Unlike a binding without an answer it leaves nothing in doubt.
            raise CannotDecide("WriteFailed", f"pod {pod.full_name}: {error}") from error
        self.cache.add_pod(cleared)
        held.problem = "cards that another writer put on it were removed, and came back"
        return True

    def _refused(self, pod: PodState, error: kube.KubeError, held: _Held) -> None:
        """Judge the API server's no; returns where the pod must be looked at again.

        Raises:
            CannotDecide: the pod is gone, or may not be bound.
        """
        if error.not_found:
            self.cache.remove_pod(pod.uid)
            raise Gone(pod.full_name, pod.uid) from error
        held.problem = str(error)
        if error.conflict:
            return  # it has changed, or is bound: by an earlier request of ours perhaps
        if error.status < 500:
            raise CannotDecide("WriteFailed", f"pod {pod.full_name}: {error}") from error
        self._unanswered(pod, error, held)

    def _unanswered(self, pod: PodState, error: Exception, held: _Held) -> None:
        """Keep what is reserved: the API server may still bind the pod with it."""
        held.problem = str(error)
        self.cache.doubt(pod.uid, held.time_ns)

    def _bound_after_all(self, pod: PodState, node: str, held: _Held) -> bool:
        """Take back what is reserved, unless the pod is bound with it, or still may be.

        It may have been bound by a rival, or by an earlier binding of ours that was lost. Where the
        change that ends a binding without an answer can't be written either, the cards stay
        reserved until the watch or time tells.
        """
        after = self.cache.pod(pod.uid)
        if held.time_ns and self.cache.is_doubtful(pod.uid):
            try:
                after = self.writer.touch(pod, timeout_seconds=_FENCE_SECONDS)
            except (kube.KubeError, kube.KubeUnavailable) as error:
                if not isinstance(error, kube.KubeError) or not error.not_found:
                    logger.warning("reservation is kept pod=%s error=%s", pod.full_name, error)
                    return False
            else:
                self.cache.add_pod(after)
        self.cache.forget(pod.uid, held.time_ns)
        return after is not None and _is_bound(after, node)


def _bound_before(pod: PodState) -> Outcome:
    """Return the outcome of a pod that an earlier call, or a rival, has bound to the node."""
    return Outcome(pod=pod, code="", answer=encode_binding_result())


def _is_bound(pod: PodState, node: str) -> bool:
    """Say whether the pod has what the scheduler asks for already.

    Raises:
        CannotDecide: another writer has bound it.
    """
    if not pod.node:
        return False
    if pod.node != node:
        raise CannotDecide("Bound", f"pod {pod.full_name} runs on node {pod.node} already")
    if pod.ours and pod.decision is None:
        text = f"pod {pod.full_name} was bound to node {node} by another writer, without cards"
        raise CannotDecide("Bound", text)
    return True
