"""What the extender keeps of a pod: what it asks, where it is, and the decision written on it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from extender.cache.demands import demands_of, demands_text, entry_bytes, shared_text
from gpustack.model.cluster.eligibility import Demands
from gpustack.model.lru import remembered
from gpustack.model.request import BadRequest, PodRequest
from gpustack.wire import annotations, pods
from gpustack.wire.annotations import BadAnnotation, Decision
from gpustack.wire.keys import Keys
from gpustack.wire.kube import pod_history
from gpustack.wire.user_keys import parse_user_keys

_NEVER: Final = float("-inf")
_UNKNOWN: Final = float("inf")
_LONGEST_LABELS: Final = 16 << 10  # bytes as JSON; an object of the API may have a megabyte
_LABELS: Final = msgspec.json.Decoder(dict[str, str])
# Seconds. A tenant chooses any grace for its pods, and one that hangs in the driver outlives it.
_LONGEST_END: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """One pod at one ``resourceVersion``.

    Attributes:
        uid: what identifies it; a recreated pod of the same name is another one.
        version: ``resourceVersion`` as a number, to tell older news from newer.
        node: where it is bound, empty while it isn't.
        finished: it has ended; its cards are free.
        deletion: it is being deleted; a bound one still runs.
        created_ns: when it was created, Unix nanoseconds; 0 where unknown, or it asks for no
            GPU.
        slow: its deletion leaves it, or would, so long that nobody should wait for its cards.
        deletion_clock: when its deletion came to be known here (monotonic seconds); infinity where
            it isn't.
        gated: it has scheduling gates, so it may not be placed.
        priority: the scheduler's; pods of higher priority go first.
        nominated: the node on which preemption makes room for it, empty where there is none.
        labels_text: the labels as JSON, of pods that ask for a GPU; as objects they would take
            eight times as much. Empty for others and for none; None where they are endless.
        request: what it asks; None when it asks for no GPU, or badly.
        shape: the request without the names of its containers: pods alike ask alike.
        problem: why what it asks can't be.
        ignored: a user key that can't be read and changes nothing any more, for the pod is bound.
        decision: the decision written on it, if it can be read and its limits justify it,
            whatever its user keys say.
        decision_keys: the annotation keys of cards on it, readable or not; of a bound pod none.
        unschedulable: what the scheduler last said about it, empty when nothing.
        unschedulable_ns: when it said so, Unix nanoseconds; 0 when it never did, 1 where the time
            can't be read.
        demands_text: what it says about nodes, as `demands_text` keeps it, where it asks for a GPU.
        followed: an earlier version of it was known here, so what is new in this one came since.
        refused_clock: when the scheduler's last refusal came to be known here (monotonic seconds);
            minus infinity where it was there at first sight, or there is none.
        owner: what made it and makes it anew, `ReplicaSet/web-5d8f`; empty where a person did.
    """

    uid: str
    namespace: str
    name: str
    version: int
    node: str
    finished: bool
    deletion: bool
    gated: bool
    priority: int
    nominated: str
    labels_text: bytes | None
    request: PodRequest | None
    shape: PodRequest | None
    problem: BadRequest | None
    decision: Decision | None
    decision_keys: tuple[str, ...]
    unschedulable: str
    unschedulable_ns: int
    demands_text: bytes = b""
    followed: bool = False
    refused_clock: float = _NEVER
    ignored: BadRequest | None = None
    slow: bool = False
    deletion_clock: float = _UNKNOWN
    created_ns: int = 0
    owner: str = ""

    @property
    def full_name(self) -> str:
        """Namespace and name, for people."""
        return f"{self.namespace}/{self.name}"

    @property
    def labels(self) -> Mapping[str, str] | None:
        """Its labels, read anew; None where they are endless: any budget may protect such a pod."""
        if not self.labels_text:
            return None if self.labels_text is None else {}
        return _LABELS.decode(self.labels_text)

    @property
    def demands(self) -> Demands:
        """What it says about nodes, as far as it says it in bounds."""
        return demands_of(self.demands_text)

    @property
    def ours(self) -> bool:
        """It asks for a GPU, rightly or not."""
        return self.request is not None or self.problem is not None

    def is_slow(self, clock: float) -> bool:
        """Say whether nobody should wait for its cards: it may take long to end, or does."""
        return self.slow or clock >= self.deletion_clock + _LONGEST_END

    @property
    def waits(self) -> bool:
        """It asks for a GPU, isn't bound, and isn't about to end; it may have cards reserved."""
        return self.ours and not (self.finished or self.node or self.deletion)

    @property
    def placeable(self) -> bool:
        """It asks rightly for a GPU, and cards may be given to it now."""
        barred = self.finished or self.gated or self.node or self.deletion
        return self.request is not None and not barred


def read_pod(keys: Keys, pod: Mapping[str, Any]) -> PodState:
    """Read a pod of the API, as JSON, under the names of a domain."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    asked = _asked_by_pod(keys, pod)
    bound = pods.is_bound(pod)
    limits = asked.held if bound else asked.limits
    decision_keys = () if bound or limits is None else _decision_keys(keys, pod)
    too_many = _too_many(keys, len(decision_keys))
    problem = asked.problem or (None if bound else asked.bad_key or too_many)
    ours = limits is not None or problem is not None
    words, since_ns = pod_history.unschedulable(status) if ours else ("", 0)
    return PodState(
        uid=metadata["uid"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        version=int(metadata["resourceVersion"]),
        node=spec.get("nodeName") or "",
        finished=pods.finished(pod),
        deletion=bool(metadata.get("deletionTimestamp")),
        slow=_grace_seconds(metadata, spec) > _LONGEST_END,
        gated=bool(spec.get("schedulingGates")),
        priority=spec.get("priority") or 0,
        nominated=status.get("nominatedNodeName") or "",
        labels_text=_labels_text(metadata.get("labels")) if ours else b"",
        request=None if problem else asked.request,
        shape=None if problem else asked.shape,
        problem=problem,
        ignored=asked.bad_key if bound else None,
        decision=None if limits is None else _decision(keys, pod, limits),
        decision_keys=decision_keys if too_many is None else (),
        unschedulable=words,
        unschedulable_ns=since_ns,
        demands_text=demands_text(spec) if ours else b"",
        created_ns=pod_history.created_ns(metadata) if ours else 0,
        owner=pod_history.owner(metadata) if ours else "",
    )


def _grace_seconds(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> int:
    """Return how long a pod has to end: the scheduler deletes with the grace of the pod's spec."""
    if metadata.get("deletionTimestamp"):
        return metadata.get("deletionGracePeriodSeconds") or 0
    return spec.get("terminationGracePeriodSeconds") or 0


def told(pod: PodState, before: PodState | None, clock: float) -> PodState:
    """Return the pod with what is known of it from its version ``before``.

    The API keeps the time of the first of several refusals in a row, by the scheduler's clock; so
    one that differs from that known before counts from now, by ours (``clock``: monotonic seconds).
    So does its deletion.
    """
    if pod.deletion:
        since = clock if before is None else min(before.deletion_clock, clock)
        pod = replace(pod, deletion_clock=since)
    if before is None or pod.node:
        return pod  # of a bound pod the refusals don't matter
    said = pod.unschedulable, pod.unschedulable_ns
    fresh = pod.unschedulable_ns and said != (before.unschedulable, before.unschedulable_ns)
    return replace(pod, followed=True, refused_clock=clock if fresh else before.refused_clock)


def older(pod: PodState, known: PodState) -> bool:
    """Say whether ``known`` is later news of a pod.

    A pod that we bound is known as bound before its bound version is.
    """
    if pod.version != known.version:
        return pod.version < known.version
    return bool(known.node) and not pod.node


def rewritten(pod: PodState, known: PodState) -> bool:
    """Say whether a bound pod has other cards than before, or has ended and runs on.

    Its node alone says so, as often as it likes.
    """
    was = known.decision
    if not known.node or was is None:
        return False
    lost = pod.decision is None or pod.decision.placement != was.placement
    return lost or (known.finished and not pod.finished)


def _decision(keys: Keys, pod: Mapping[str, Any], limits: PodRequest) -> Decision | None:
    try:
        return annotations.decode_decision(keys, pod, limits)
    except BadAnnotation:
        # What a user wrote is no decision; the agent names it where it matters, at Allocate.
        return None


# A cluster's thousands of pods come from few templates: equal values are kept once.
@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the pods of one template ask; names as in `PodState`.

    Attributes:
        limits: what their limits ask alone.
        held: of these, what may hold a card of a bound pod, whose other limits may be impossible.
        request: the same with the user keys that can be read.
        bad_key: the first user key that can't be.
    """

    limits: PodRequest | None = None
    held: PodRequest | None = None
    request: PodRequest | None = None
    shape: PodRequest | None = None
    problem: BadRequest | None = None
    bad_key: BadRequest | None = None


def _asked_by_pod(keys: Keys, pod: Mapping[str, Any]) -> _Asked:
    try:
        asking = pods.asking(keys, pod)
    except BadRequest as problem:
        return _Asked(problem=problem.with_traceback(None))
    return _asked_by(keys, msgspec.json.encode(asking)) if asking else _NOTHING


_NOTHING: Final = _Asked()


@remembered(24 << 20, lambda _keys, asking: entry_bytes(asking))
def _asked_by(keys: Keys, asking: bytes) -> _Asked:
    pod = msgspec.json.decode(asking)
    try:
        limits = pods.parse_limits(keys, pod)
    except BadRequest as problem:
        held = pods.parse_held_limits(keys, pod)
        return _Asked(
            problem=problem.with_traceback(None), held=None if held is None else _shared(held)
        )
    if limits is None:
        return _NOTHING
    chosen = parse_user_keys(keys, pod)
    request = chosen.choose_for(limits)
    nameless = tuple(replace(container, name="") for container in request.containers)
    shape = replace(request, containers=nameless)
    return _Asked(
        limits=_shared(limits),
        held=_shared(limits),
        request=_shared(request),
        shape=_shared(shape),
        bad_key=next(iter(chosen.problems), None),
    )


@remembered(16 << 20, lambda request: request.size_bytes)
def _shared(request: PodRequest) -> PodRequest:
    return request


def _labels_text(labels: Mapping[str, str] | None) -> bytes | None:
    text = msgspec.json.encode(labels, order="sorted") if labels else b""
    return shared_text(text) if len(text) <= _LONGEST_LABELS else None


def _decision_keys(keys: Keys, pod: Mapping[str, Any]) -> tuple[str, ...]:
    prefixes = (keys.idx_prefix, keys.uuid_prefix)
    return tuple(key for key in annotations.annotations_of(pod) if key.startswith(prefixes))


def _too_many(keys: Keys, count: int) -> BadRequest | None:
    """Refuse more keys of cards than a pod's containers have: to remove them, all are kept."""
    if count <= pods.MOST_DECISION_KEYS:
        return None
    problem = f"{count} of {keys.idx_prefix}* and {keys.uuid_prefix}*, which the extender writes"
    return BadRequest("metadata.annotations", f"has {problem}; leave them out")
