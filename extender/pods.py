"""What the extender keeps of a pod: what it asks, where it is, and the decision written on it."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpustack.model.request import BadRequest, PodRequest
from gpustack.wire import annotations, pods
from gpustack.wire.annotations import BadAnnotation, Decision, Keys

_DAY_NS: Final = 86_400 * 10**9
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """One pod at one ``resourceVersion``.

    Attributes:
        uid: what identifies it; a recreated pod of the same name is another one.
        namespace: its namespace.
        name: its name.
        version: ``resourceVersion`` as a number, to tell older news from newer.
        node: where it is bound, empty while it isn't.
        finished: it has ended; its cards are free.
        gated: it has scheduling gates, so nobody may place it.
        request: what it asks; None when it asks for no GPU, or badly.
        problem: why what it asks can't be.
        decision: the decision written on it, if it can be read and its limits justify it.
        decision_keys: the annotation keys of cards on it, readable or not.
        unschedulable: what the scheduler last said about it, empty when nothing.
        unschedulable_ns: when it said so, Unix nanoseconds; 0 when it never did.
    """

    uid: str
    namespace: str
    name: str
    version: int
    node: str
    finished: bool
    gated: bool
    request: PodRequest | None
    problem: BadRequest | None
    decision: Decision | None
    decision_keys: tuple[str, ...]
    unschedulable: str
    unschedulable_ns: int

    @property
    def full_name(self) -> str:
        """Namespace and name, for people."""
        return f"{self.namespace}/{self.name}"


def read_pod(keys: Keys, pod: Mapping[str, Any], before: PodState | None, now_ns: int) -> PodState:
    """Read a pod of the API.

    Args:
        keys: the domain's names.
        pod: the API's JSON.
        before: what was known of it until now.
        now_ns: Unix nanoseconds; the time of what the scheduler says anew.
    """
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    request, problem, decision = _asked(keys, pod)
    words, since_ns = _unschedulable(pod)
    if before is not None and since_ns and words != before.unschedulable:
        # The API keeps the time of the first of several refusals in a row.
        since_ns = max(since_ns, now_ns)
    elif before is not None and since_ns:
        since_ns = max(since_ns, before.unschedulable_ns)
    return PodState(
        uid=metadata["uid"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        version=int(metadata["resourceVersion"]),
        node=spec.get("nodeName") or "",
        finished=pods.finished(pod),
        gated=bool(spec.get("schedulingGates")),
        request=request,
        problem=problem,
        decision=decision,
        decision_keys=_decision_keys(keys, pod) if request is not None else (),
        unschedulable=words,
        unschedulable_ns=since_ns,
    )


def _asked(
    keys: Keys, pod: Mapping[str, Any]
) -> tuple[PodRequest | None, BadRequest | None, Decision | None]:
    try:
        request = pods.parse_request(keys, pod)
    except BadRequest as problem:
        return None, problem, None
    if request is None:
        return None, None, None
    try:
        return request, None, annotations.decode_decision(keys, pod, request)
    except BadAnnotation:
        # What a user wrote is no decision; the agent names it where it matters, at Allocate.
        return request, None, None


def _decision_keys(keys: Keys, pod: Mapping[str, Any]) -> tuple[str, ...]:
    prefixes = (keys.idx_prefix, keys.uuid_prefix)
    return tuple(key for key in annotations.annotations_of(pod) if key.startswith(prefixes))


def _unschedulable(pod: Mapping[str, Any]) -> tuple[str, int]:
    """Return the scheduler's last refusal and its time (Unix nanoseconds)."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if (
            condition.get("type") == "PodScheduled"
            and condition.get("status") == "False"
            and condition.get("reason") == "Unschedulable"
        ):
            return condition.get("message") or "", _time_ns(condition.get("lastTransitionTime"))
    return "", 0


def _time_ns(text: str | None) -> int:
    """Read an RFC 3339 time; 1 where it can't be read: once, nobody knows when."""
    try:
        moment = datetime.datetime.fromisoformat(text or "")
    except ValueError:
        return 1
    if moment.tzinfo is None:
        return 1
    since = moment - _EPOCH
    return since.days * _DAY_NS + since.seconds * 10**9 + since.microseconds * 1000
