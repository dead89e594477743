"""The stable codes that aren't a node's answer, and what each code of all means and wants.

An agent refuses a container with a code, the extender a call of the scheduler, and Events have one.
A node's answer has a `Reason`. All of them are looked up in one place: `MEANINGS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from gpustack.model.cures import CURES
from gpustack.model.refusal import REASON_WORDS, Reason

AdmissionReason = Literal[
    "ApiServerAway", "BadAnnotation", "CheckpointFailed", "HiddenPath", "HostIncomplete",
    "KubeletBusy", "KubeletRestarted", "LimitsNotWritten", "NoCandidate", "NotAllocated",
    "PairingMismatch", "PairingUnproven", "Undecided",
]  # fmt: skip
"""Why an agent refuses a container, where no `Reason` of a decision does."""

DecisionFailure = Literal[
    "Bound", "Busy", "CallerGone", "Deleted", "Finished", "Gated", "Gone", "NotReady", "Overtaken",
    "QuotaUnreadable", "ReadFailed", "ReadOnly", "TooLate", "WriteFailed",
]  # fmt: skip
"""Why the extender has no answer about nodes now; the scheduler asks again later."""

EventReason = Literal[
    "CardHealthy", "CardProbed", "CardQuarantined", "CardUnhealthy", "ForeignLimits", "GPUBound",
    "GPUReserved", "LedgerDamaged", "MemoryAboveShare", "OldPage", "QuotaUnreadable",
    "ShareExceeded", "UncountedProcess", "UnexplainedUse", "UnhookedProcess", "UserKeyIgnored",
]  # fmt: skip
"""Of Events on pods, nodes and the quota, besides those of refusals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """Where a code is met, what it says, and what to do.

    Names in capitals are for the reader to fill in.

    Attributes:
        page: the section that has the same, by its path in the repository.
    """

    where: str
    words: str
    cure: str
    page: str


_NEW_POD: Final = "A controller makes another pod by itself; create one without a controller again"
_AGAIN: Final = "Nothing: the scheduler asks again"
_API_SERVER: Final = (
    f"{_AGAIN}. If it stays, `journalctl -u gpustack-extender` has the API server's words"
)
_PAST_LIMITS: Final = (
    "Look at what the pod runs, or ask its owner. on_violation in agent.yml says what the agent"
    " does besides this Event"
)

_ADMISSION: Final[Mapping[AdmissionReason, tuple[str, str]]] = {
    "ApiServerAway": (
        "the agent can't ask the API server which pod the kubelet means",
        f"Mend the way from the node to the API server. {_NEW_POD}.",
    ),
    "BadAnnotation": (
        "the decision on the pod can't be read",
        "Delete the pod, and find who wrote its annotations: gpustack's scheduler extender alone"
        " should.",
    ),
    "CheckpointFailed": (
        "the agent can't record the allocation on its disk",
        "Make room on the disk of /var/lib/gpustack, or mend it: the agent's /readyz says what is"
        f" wrong, and no restart is needed. {_NEW_POD}.",
    ),
    "HiddenPath": (
        "a volume of the pod would hide files of the GPU stack",
        "Mount the volume elsewhere: the message names the path and those that are ours.",
    ),
    "HostIncomplete": (
        "a file of the driver or of the hook is missing on the host",
        "Do what the message says; `gpustack doctor --host` on the node looks at all of them."
        f" {_NEW_POD}.",
    ),
    "KubeletBusy": (
        "the kubelet answers the agent no more questions for now, because another program asks",
        "Find the other client of the kubelet's PodResources socket, and have it ask more rarely."
        f" {_NEW_POD}.",
    ),
    "KubeletRestarted": (
        "the kubelet that asked has ended since",
        "Nothing: the kubelet that runs now asks for the pod anew.",
    ),
    "LimitsNotWritten": (
        "the files with the share's limits can't be written, so it may not start",
        f"`journalctl -u gpustack-mount` on the node has the cause. {_NEW_POD}.",
    ),
    "NotAllocated": (
        "the kubelet starts a container with devices that the agent has given to none",
        f"Delete the pod where the agent hasn't failed it. {_NEW_POD}.",
    ),
    "NoCandidate": (
        "the API server shows no pod of this node that waits for so many devices",
        "Of a static pod: write a decision on its mirror, then restart the kubelet. Else see"
        f" whether the pod was deleted meanwhile. {_NEW_POD}.",
    ),
    "PairingMismatch": (
        "the kubelet holds the devices for another pod than the one they were given to",
        f"Nothing: the agent fails the pod. {_NEW_POD}.",
    ),
    "PairingUnproven": (
        "neither the kubelet's checkpoint nor its socket says whose devices these are",
        "Nothing where it passes: the kubelet tries again. If it stays, look at the kubelet's log,"
        " and at its file kubelet_internal_checkpoint.",
    ),
    "Undecided": (
        "no scheduler that asks the extender has chosen the pod's cards",
        "Leave spec.nodeName out, write the schedulerName that the site has (`gpustack` where it"
        " runs a scheduler of its own), and make static pods by a DaemonSet. `gpustack doctor`"
        " finds a scheduler that doesn't ask the extender.",
    ),
}

_DECISION: Final[Mapping[DecisionFailure, tuple[str, str]]] = {
    "Bound": ("the pod runs on a node already", "Nothing."),
    "Busy": ("earlier requests are still at work on the same", f"{_AGAIN}."),
    "CallerGone": (
        "the scheduler has closed its connection before the answer",
        f"{_AGAIN}. If it stays, raise kube_scheduler_http_timeout_seconds.",
    ),
    "Deleted": ("the pod is being deleted", "Nothing."),
    "Finished": ("the pod has finished", "Nothing."),
    "Gated": (
        "the pod has spec.schedulingGates",
        "Whoever wrote the gates takes them away when it may start.",
    ),
    "Gone": ("the pod is gone, or another has its name", "Nothing."),
    "NotReady": (
        "the extender doesn't know the cluster yet, or not any more",
        "Wait a moment after its start. If it stays, /readyz on its host says which list it lacks.",
    ),
    "Overtaken": (
        "the cards were given to another pod between the scheduler's two questions",
        f"{_AGAIN}.",
    ),
    "ReadFailed": ("the API server gave no answer", f"{_API_SERVER}."),
    "ReadOnly": (
        "the extender shows a snapshot, and decides nothing",
        "Start it without --snapshot where it should decide.",
    ),
    "TooLate": (
        "no decision was found within decision_seconds",
        f"{_AGAIN}. If it stays, look at the host's load; decision_seconds in extender.yml must be"
        " less than the scheduler waits.",
    ),
    "WriteFailed": (
        "the API server didn't take the binding or the annotations",
        f"{_API_SERVER}.",
    ),
}

_EVENTS: Final[Mapping[EventReason, tuple[str, str]]] = {
    "CardHealthy": ("the card takes new work again", "Nothing."),
    "CardProbed": (
        "nothing stands against the card any more, and it is watched for a while",
        "Nothing: it takes new work when that has passed.",
    ),
    "CardQuarantined": (
        "an XID or an administrator has closed the card to new work",
        "`gpustack card list` on the host says why, and what NVIDIA says to do.",
    ),
    "CardUnhealthy": (
        "the driver says a fault of the card, which takes no new work",
        "`gpustack card list` on the host says which, and what to do.",
    ),
    "ForeignLimits": (
        "a process of the pod uses other limits, or another ledger, than its container's",
        f"{_PAST_LIMITS}.",
    ),
    "GPUBound": ("the pod was bound with these cards", "Nothing."),
    "GPUReserved": ("cards are kept for the pod until it is bound", "Nothing."),
    "LedgerDamaged": (
        "the container wrote over the file in which its use is counted",
        f"Where an image runs chown or chmod on /etc/vcuda, leave that out. {_PAST_LIMITS}.",
    ),
    "MemoryAboveShare": (
        "the driver shows more memory of the container than its share",
        f"{_PAST_LIMITS}.",
    ),
    "OldPage": (
        "a process launches by an activity page that the agent has replaced",
        "Restart the pod where it stays.",
    ),
    "QuotaUnreadable": (
        "the quota's ConfigMap can't be used",
        "Mend the field that the Event names. Until then quota.on_error in extender.yml says"
        " whether the last quota counts or pods are refused.",
    ),
    "ShareExceeded": (
        "the container had GPU time beyond its share, as the driver counts",
        f"{_PAST_LIMITS}.",
    ),
    "UncountedProcess": (
        "more processes of the container are on the card than hold a place in its ledger",
        f"{_PAST_LIMITS}.",
    ),
    "UnexplainedUse": (
        "a shared card has memory or time in use that no container's share explains",
        "Look for processes on the host with `nvidia-smi`; the Event names what is known.",
    ),
    "UnhookedProcess": (
        "a process of the pod uses the card without the hook",
        "A program that is linked statically, or for musl, or runs in a chroot reads no"
        f" /etc/ld.so.preload: give it a whole card. {_PAST_LIMITS}.",
    ),
    "UserKeyIgnored": (
        "an annotation of a bound pod can't be read and is ignored",
        "Mend the annotation that the Event names; the pod keeps its cards meanwhile.",
    ),
}

_ANSWERS: Final = {each: (REASON_WORDS[each], CURES[each]) for each in Reason}

PAGE: Final = "docs/reference/reasons.md"

MEANINGS: Final[Mapping[str, Meaning]] = {
    code: Meaning(where=where, words=words, cure=cure, page=f"{PAGE}#{code.lower()}")
    for where, meanings in (
        ("the scheduler gets no answer", _DECISION),
        ("an Event", _EVENTS),
        ("a pod fails on its node", _ADMISSION),
        ("a pod waits", _ANSWERS),
    )
    for code, (words, cure) in meanings.items()
}
"""By the code."""
