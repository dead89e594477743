"""The verb of GPUManager's scheduler Policy: choose one node, reserve its cards, write it down.

kube-scheduler calls it as its last filter. The answer is one node, whose cards stand on the pod
before the answer is given. A pod that comes again (its binding failed, or the scheduler didn't
wait for us) gets the same cards while they still suit it, and other ones when they don't.
"""

from dataclasses import dataclass, field
from typing import Final

from extender.apiserver.keyed_lock import KeyedLock
from extender.apiserver.writer import PodWriter
from extender.cache.cache import ClusterCache
from extender.cache.consistent_read import ConsistentRead
from extender.cache.node_results import NodeResults
from extender.cache.pods import PodState
from extender.errors import CannotDecide, Gone
from extender.verbs.deadline import Deadline
from extender.verbs.outcome import NOT_OURS, PLACED, Outcome, bad_request, refused
from extender.verbs.pod_lookup import PodLookup
from extender.verbs.reserve import Choice, Reserver
from gpustack.adapters import kube
from gpustack.model.equivalence import REFUSED
from gpustack.model.placement import Placement
from gpustack.model.refusal import Reason
from gpustack.wire.extender_v1 import FilterArgs, encode_filter_echo, encode_filter_result

_MOST_TRIES: Final = 5  # the scheduler asks about no other pod meanwhile
_ANOTHER_POD: Final = 422  # the UID in a patch is immutable, and another pod has the name now


@dataclass(kw_only=True)
class Predicates:
    """Answers `/scheduler/predicates`."""

    cache: ClusterCache
    lookup: PodLookup
    reserver: Reserver
    consistent_read: ConsistentRead
    writer: PodWriter
    pod_locks: KeyedLock = field(default_factory=KeyedLock)

    def __call__(self, args: FilterArgs, deadline: Deadline) -> Outcome:
        """Place the pod; the answer is an ExtenderFilterResult.

        Raises:
            CannotDecide: nothing can be said about nodes: the pod is gone, gated, or bound
                already, or the API server doesn't answer in time.
        """
        pod = self.lookup.find(args.pod, deadline)
        if pod.problem is not None:
            refusals = [REFUSED[Reason.BAD_REQUEST]] * len(args.names)
            answer = _answer(args, [], NodeResults(args.names, refusals))
            return bad_request(pod, pod.problem, answer)
        if pod.request is None:
            return Outcome(pod=pod, code=NOT_OURS, answer=encode_filter_echo(args))
        with self.pod_locks.of(pod.uid, timeout_seconds=deadline.left()):
            choice = self._decide(args, self.lookup.settled(pod, deadline), deadline)
        results, placement = choice.results, choice.placement
        if placement is None:
            return refused(choice.pod, results, _answer(args, [], results))
        return Outcome(
            pod=choice.pod,
            code=PLACED,
            answer=_answer(args, [placement.node], results),
            node=placement.node,
            placement=placement,
            reasons=results.reasons(),
        )

    def _decide(self, args: FilterArgs, pod: PodState, deadline: Deadline) -> Choice:
        """Choose and write, anew while the pod changes in between; nothing is written when refused.

        Raises:
            CannotDecide: the pod is gone, changes each time, or there is no time left.
        """
        problem = ""
        for _ in range(_MOST_TRIES):
            choice = self._choose(args, pod, deadline)
            placement = choice.placement
            problem = "" if placement is None else self._write(choice, placement, deadline)
            if not problem:
                return choice
            try:
                pod = self.lookup.read(args.pod, deadline)
            except CannotDecide:
                self.cache.doubt(pod.uid, choice.time_ns)
                raise
            written = pod.decision
            if written is not None and written.time_ns == choice.time_ns:
                return choice  # an earlier try of this very write had come through
            self.cache.forget(pod.uid, choice.time_ns)
        text = f"pod {pod.full_name} changed in each of {_MOST_TRIES} tries: {problem}"
        raise CannotDecide("WriteFailed", text)

    def _choose(self, args: FilterArgs, pod: PodState, deadline: Deadline) -> Choice:
        """Decide on knowledge that is fresh as far as it matters.

        What was reserved before a look at the API server is given back where that brings a no.
        """
        reserved_ns = 0
        try:
            while True:
                choice = self.reserver.choose(pod, args.names, deadline.search_time)
                if choice.placement is None:
                    self.cache.forget(pod.uid, reserved_ns)
                    return choice
                reserved_ns = choice.time_ns
                node = choice.placement.node
                if not self.consistent_read.due(node, pod.namespace):
                    return choice
                self.consistent_read.read(
                    node,
                    pod.namespace,
                    timeout=deadline.left,
                    change_pod=lambda: self.lookup.change(pod, deadline),
                )
        except CannotDecide:
            self.cache.forget(pod.uid, reserved_ns)
            raise

    def _write(self, choice: Choice, placement: Placement, deadline: Deadline) -> str:
        """Put the decision on the pod; what wasn't written is not reserved any more.

        Returns the API server's words, with the cards still reserved, where the pod has changed
        since the choice.
        """
        pod = choice.pod
        try:
            written = self.writer.write_decision(
                pod, placement, choice.time_ns, timeout_seconds=deadline.left()
            )
        except CannotDecide:  # no time is left to write
            self.cache.forget(pod.uid, choice.time_ns)
            raise
        except kube.KubeError as error:
            if error.not_found or error.status == _ANOTHER_POD:
                self.cache.remove_pod(pod.uid)
                raise Gone(pod.full_name, pod.uid) from error
            if error.conflict:
                return str(error)
            if error.retryable:
                self.cache.doubt(pod.uid, choice.time_ns)
            else:
                self.cache.forget(pod.uid, choice.time_ns)
            raise CannotDecide("WriteFailed", f"pod {pod.full_name}: {error}") from error
        except kube.KubeUnavailable as error:
            # It may stand on the pod, so the cards stay reserved until the watch or time tells;
            # so they do after an error of the server's own (500, 504) above.
            self.cache.doubt(pod.uid, choice.time_ns)
            raise CannotDecide("WriteFailed", f"pod {pod.full_name}: {error}") from error
        self.consistent_read.wrote()
        self.cache.add_pod(written)
        return ""


def _answer(args: FilterArgs, chosen: list[str], results: NodeResults) -> bytes:
    words = {name: answer.words for name, answer in results.pairs() if answer.reason}
    # Schedulers before 1.21 read only FailedNodes; later ones let the other field win.
    return encode_filter_result(args, chosen=chosen, failed=words, unresolvable=words)
