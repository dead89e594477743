"""Why a pod does not fit: a stable code, fixed words, and the first reason of every card.

kube-scheduler groups nodes by identical text, so a node's message is one of a fixed list and
carries no number, name or identifier. What differs from node to node stands in `detail` and
`cards`, for events and for `/v1/explain`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """The stable codes. Their spelling is a contract: users grep for it."""

    INSUFFICIENT_CORE = "InsufficientCore"
    INSUFFICIENT_MEMORY = "InsufficientMemory"
    NO_WHOLE_CARD = "NoWholeCard"
    WRONG_MODEL = "WrongModel"
    TOPOLOGY_UNMET = "TopologyUnmet"
    UNHEALTHY_CARDS = "UnhealthyCards"
    QUOTA_EXCEEDED = "QuotaExceeded"
    MODEL_FORBIDDEN = "ModelForbidden"
    POOL_FORBIDDEN = "PoolForbidden"
    BAD_REQUEST = "BadRequest"
    NO_CARDS = "NoCards"
    NODE_UNKNOWN = "NodeUnknown"
    NOT_SEARCHED = "NotSearched"
    # What the scheduler asks before any card is looked at (`eligibility`).
    SCHEDULING_GATED = "SchedulingGated"
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    NODE_SELECTOR_UNMET = "NodeSelectorUnmet"
    NODE_AFFINITY_UNMET = "NodeAffinityUnmet"
    AGENT_SILENT = "AgentSilent"
    # Of a decision that another program wrote (`verification`).
    UNKNOWN_CARD = "UnknownCard"
    CARD_RENUMBERED = "CardRenumbered"
    UNJUSTIFIED_DECISION = "UnjustifiedDecision"


REASON_WORDS: Final[Mapping[Reason, str]] = {
    Reason.INSUFFICIENT_CORE: "no GPU has enough free vcuda-core",
    Reason.INSUFFICIENT_MEMORY: "no GPU has enough free vcuda-memory beside the vcuda-core",
    Reason.NO_WHOLE_CARD: "not enough wholly free GPUs",
    Reason.WRONG_MODEL: "not enough GPUs of the model or UUID that the pod accepts",
    Reason.TOPOLOGY_UNMET: "the free GPUs are not joined as the pod demands",
    Reason.UNHEALTHY_CARDS: "the GPUs that would fit are unhealthy",
    Reason.QUOTA_EXCEEDED: "the GPU quota of the namespace is used up",
    Reason.MODEL_FORBIDDEN: "the GPU quota of the namespace does not name this node's models",
    Reason.POOL_FORBIDDEN: "the namespace may not use this node's GPU pool",
    Reason.BAD_REQUEST: "the pod's GPU request is invalid",
    Reason.NO_CARDS: "the node has no GPU",
    Reason.NODE_UNKNOWN: "the node is not known to gpustack yet",
    Reason.NOT_SEARCHED: "no time was left to search the node; a later question comes to it",
    Reason.SCHEDULING_GATED: "the pod has scheduling gates",
    Reason.NODE_UNSCHEDULABLE: "the node is cordoned",
    Reason.TAINT_NOT_TOLERATED: "the node has a taint that the pod does not tolerate",
    Reason.NODE_SELECTOR_UNMET: "the node has not the labels of the pod's nodeSelector",
    Reason.NODE_AFFINITY_UNMET: "the node does not match the pod's required node affinity",
    Reason.AGENT_SILENT: "the node's agent is silent, so the kubelet offers no GPU",
    Reason.UNKNOWN_CARD: "the decision names a GPU that the node does not have",
    Reason.CARD_RENUMBERED: "another GPU stands at the decision's minor now",
    Reason.UNJUSTIFIED_DECISION: "the decision is not justified by the pod's limits",
}
"""One fixed sentence for each code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRefusal:
    """The first reason that rules one card out."""

    minor: int
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A node's no.

    Attributes:
        reason: what stands most in the way: the obstacle of the cards that came nearest.
        cards: the first reason of every card that is ruled out by itself, ascending by minor.
        detail: one sentence with the numbers and names; empty where the words say it all.
    """

    reason: Reason
    cards: tuple[CardRefusal, ...] = ()
    detail: str = ""

    @property
    def message(self) -> str:
        """The fixed words of the reason: the same text for every node it applies to."""
        return REASON_WORDS[self.reason]
