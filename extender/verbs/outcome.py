"""The value that a verb returns: what it has decided, and the answer to the scheduler."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from extender.cache.node_results import NodeResults
from extender.cache.pods import PodState
from gpustack.model.placement import Placement
from gpustack.model.refusal import Reason
from gpustack.model.request import BadRequest
from gpustack.wire.extender_v1 import PodName

FITS: Final = "Fits"
PLACED: Final = "Placed"
BOUND: Final = "Bound"
NOT_OURS: Final = "NotOurs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a verb has decided about a pod.

    Attributes:
        pod: the pod; its name only, where it isn't known.
        code: ``Fits``, ``Placed``, ``Bound``, ``NotOurs``, or a stable code of why not; empty where
            this call has decided nothing.
        answer: the body for the scheduler.
        node: the chosen node; empty where there is none.
        placement: the cards that the pod got.
        reasons: how many of the nodes refused for which reason; None counts those with room.
        refusals: what each node answered to a pod that no node has room for.
        message: why not, in a sentence; empty where ``reasons`` say it all.
    """

    pod: PodState | PodName
    code: str
    answer: bytes
    node: str = ""
    placement: Placement | None = None
    reasons: Mapping[Reason | None, int] = field(default_factory=dict)
    refusals: NodeResults | None = None
    message: str = ""


def bad_request(pod: PodState, problem: BadRequest, answer: bytes) -> Outcome:
    """Return the outcome of a pod that asks for what doesn't exist."""
    return Outcome(pod=pod, code=Reason.BAD_REQUEST, answer=answer, message=problem.message)


def refused(pod: PodState, results: NodeResults, answer: bytes) -> Outcome:
    """Return the outcome of a pod that no node has room for: its code is the commonest reason."""
    reasons = results.reasons()
    codes = [reason for reason in reasons if reason is not None]
    code = min(codes, key=lambda reason: (-reasons[reason], reason), default=Reason.NO_CARDS)
    return Outcome(pod=pod, code=code, answer=answer, reasons=reasons, refusals=results)
