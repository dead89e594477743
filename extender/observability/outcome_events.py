"""The Event of an outcome, on the pod that it is about."""

from collections.abc import Callable
from typing import Final

from extender.cache.node_results import NodeResults
from extender.cache.pods import PodState
from extender.observability.event_messages import EventMessages
from extender.verbs.outcome import BOUND, PLACED, Outcome
from gpustack.adapters.kube import EventRecorder, ObjectEvent
from gpustack.model.placement import Placement
from gpustack.model.refusal import Reason

_REFUSED: Final = "refused"  # a pod hears once a minute that it was, for whatever reason
_CARDS: Final = {PLACED: ("GPUReserved", "reserved on"), BOUND: ("GPUBound", "bound to")}


class OutcomeEvents:
    """Writes Events."""

    def __init__(self, events: EventRecorder, messages: EventMessages) -> None:
        self._events = events
        self._messages = messages

    def write(self, pod: PodState, outcome: Outcome) -> None:
        """Write the Event of an outcome that has one; a refusal's numbers are worded later."""
        if outcome.placement is not None:
            reason, words = _CARDS[outcome.code]
            message = f"{words} {outcome.node}: {_cards(outcome.placement)}"
            self._events.record(pod_event(pod, reason, message, warning=False))
        elif outcome.refusals is not None:
            self._write_refusal(pod, outcome, outcome.refusals)
        elif outcome.code == Reason.BAD_REQUEST:
            self._events.record(pod_event(pod, outcome.code, outcome.message))

    def _write_refusal(self, pod: PodState, outcome: Outcome, refusals: NodeResults) -> None:
        if self._events.told(pod.uid, _REFUSED):
            return
        reasons = {each: count for each, count in outcome.reasons.items() if each is not None}
        example = next((name for name, each in refusals.pairs() if each.reason == outcome.code), "")
        message = self._messages(pod, reasons, example)
        self._events.record(pod_event(pod, outcome.code, message, topic=_REFUSED))


def _cards(placement: Placement) -> str:
    return "; ".join(
        f"container {each.name}: GPU {','.join(map(str, each.minors))}"
        for each in placement.containers
    )


def pod_event(
    pod: PodState,
    reason: str,
    message: str | Callable[[], str],
    *,
    warning: bool = True,
    topic: str = "",
) -> ObjectEvent:
    """Return an Event about a pod; arguments as in ``ObjectEvent``."""
    return ObjectEvent(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        reason=reason,
        message=message,
        warning=warning,
        topic=topic,
    )
