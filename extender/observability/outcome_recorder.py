"""What is said of a decision beside the answer: a metric, a record, and an Event on the pod."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from extender.cache.node_results import NodeResults
from extender.cache.pods import PodState
from extender.observability.decision_log import DecisionLog
from gpustack.adapters.kube import ObjectEvent
from gpustack.model.placement import Placement
from gpustack.model.refusal import Reason
from gpustack.model.request import BadRequest

_REFUSED: Final = "refused"  # a pod hears once a minute that it was, for whatever reason

Wording = Callable[[PodState, Mapping[Reason, int], str], Callable[[], str]]
"""Returns what words a refusal: of how many nodes for which reason, and one of those that gave the
commonest.

The words are made later, where nobody waits for them.
"""


class EventSink(Protocol):
    """Where Events go."""

    def told(self, uid: str, topic: str) -> bool:
        """Say whether a pod was told something about this within the last minute."""

    def record(self, event: ObjectEvent) -> None:
        """Take one, unless the pod was told about its topic within the last minute."""


class OutcomeRecorder:
    """Counts and keeps outcomes, and writes Events about them."""

    def __init__(
        self,
        *,
        events: EventSink,
        count: Callable[[str], None],
        decisions: DecisionLog,
        wording: Wording,
    ) -> None:
        """Compose.

        Args:
            events: where Events go.
            count: is told the code of every outcome.
            decisions: keeps the last ones.
            wording: words the Event of a refusal.
        """
        self._events = events
        self._count = count
        self._decisions = decisions
        self._wording = wording

    def not_ours(self) -> None:
        """A pod asked for no GPU."""
        self._count("NotOurs")

    def fits(self, pod: PodState, answers: NodeResults) -> None:
        """Some node has room; nothing is decided yet."""
        self._decisions.tell(pod, "Fits", reasons=answers.reasons())

    def placed(self, pod: PodState, placement: Placement, answers: NodeResults) -> None:
        """A pod got cards."""
        self._count("Placed")
        self._decisions.tell(pod, "Placed", reasons=answers.reasons(), placement=placement)
        message = f"reserved on {placement.node}: {_cards(placement)}"
        self._tell(pod, "GPUReserved", message, warning=False)

    def bound(self, pod: PodState, placement: Placement | None) -> None:
        """A pod was bound to a node, with cards or, where it asks for none, without."""
        self._count("Bound")
        if placement is not None:
            self._decisions.tell(pod, "Bound", reasons={None: 1}, placement=placement)
            message = f"bound to {placement.node}: {_cards(placement)}"
            self._tell(pod, "GPUBound", message, warning=False)

    def preempted(self, pod: PodState, *, helped: int, of: int) -> None:
        """On so many of the nodes that were asked about, pods could end and let this one in."""
        outcome = "Preempting" if helped else "NoVictims"
        self._count(outcome)
        self._decisions.tell(pod, outcome, message=f"victims are named on {helped} of {of} nodes")

    def badly_asked(self, pod: PodState, problem: BadRequest) -> None:
        """A pod asks for what doesn't exist."""
        self._count(Reason.BAD_REQUEST)
        self._decisions.tell(pod, Reason.BAD_REQUEST, message=problem.message)
        self._tell(pod, Reason.BAD_REQUEST, problem.message)

    def refused(self, pod: PodState, answers: NodeResults) -> None:
        """No node has room: the commonest reason is the Event's, its numbers are worded later."""
        counts = answers.reasons()
        reasons = {reason: count for reason, count in counts.items() if reason is not None}
        most = min(reasons, key=lambda reason: (-reasons[reason], reason), default=Reason.NO_CARDS)
        self._count(most)
        self._decisions.tell(pod, most, reasons=counts)
        if not self._events.told(pod.uid, _REFUSED):
            example = next((name for name, each in answers.pairs() if each.reason is most), "")
            message = self._wording(pod, reasons, example)
            self._tell(pod, most, message, topic=_REFUSED)

    def _tell(
        self,
        pod: PodState,
        reason: str,
        message: str | Callable[[], str],
        *,
        warning: bool = True,
        topic: str = "",
    ) -> None:
        self._events.record(
            ObjectEvent(
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                reason=reason,
                message=message,
                warning=warning,
                topic=topic or reason,
            )
        )


def _cards(placement: Placement) -> str:
    return "; ".join(
        f"container {each.name}: GPU {','.join(map(str, each.minors))}"
        for each in placement.containers
    )
