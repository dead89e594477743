"""On which nodes a pod may stand at all, whatever their cards: what kube-scheduler asks first.

The rules are Kubernetes' own: cordoned nodes, taints and tolerations
(https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/), `nodeSelector` and
required node affinity (.../assign-pod-node/), and scheduling gates (.../pod-scheduling-readiness/).
What a pod only prefers bars nothing. Nodes' CPU and memory, volumes, host ports and the affinity
between pods aren't known here.

The extender needs none of this, for the scheduler hands it the nodes that are left. A plan on a
snapshot does.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gpustack.model.frozen import freeze
from gpustack.model.refusal import Reason, Refusal

UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
"""The key of the taint that a pod must tolerate to stand on a cordoned node."""

OWN_TAINTS: Final = "node.kubernetes.io/"
"""How the keys of the taints begin that Kubernetes itself gives and takes (not-ready, ...)."""

_NOT_READY: Final = frozenset({f"{OWN_TAINTS}not-ready", f"{OWN_TAINTS}unreachable"})

NO_SCHEDULE: Final = "NoSchedule"
_BARRING: Final = frozenset({NO_SCHEDULE, "NoExecute"})  # PreferNoSchedule is a wish
_NAME_FIELD: Final = "metadata.name"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """What a node keeps pods away by."""

    key: str
    value: str = ""
    effect: str = NO_SCHEDULE

    def __str__(self) -> str:
        named = f"{self.key}={self.value}" if self.value else self.key
        return f"{named}:{self.effect}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a node says of itself beside its cards: labels, taints, and whether it is cordoned.

    Attributes:
        labels: by key.
        taints: what it keeps pods away by.
        cordoned: `spec.unschedulable`.
        silent: its kubelet offers none of the cards that its agent has described.
        address: where it is reached, an IP address; empty: it doesn't say.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    silent: bool = False
    address: str = ""

    def __post_init__(self) -> None:
        freeze(self, "labels")


OPEN: Final = Host()
"""A node that nothing is known of: it takes every pod that asks for no label."""


class Operator(StrEnum):
    """How a requirement compares a label, as Kubernetes writes it."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One expression of node affinity, or of a label selector."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def met(self, labels: Mapping[str, str]) -> bool:
        """Say whether these labels are what is required."""
        present = self.key in labels
        match self.operator:
            case Operator.IN:
                return present and labels[self.key] in self.values
            case Operator.NOT_IN:
                return not present or labels[self.key] not in self.values
            case Operator.EXISTS:
                return present
            case Operator.DOES_NOT_EXIST:
                return not present
            case Operator.GT | Operator.LT:
                return present and self._compared(labels[self.key])

    def _compared(self, label: str) -> bool:
        texts = (label, *self.values)
        if len(texts) != 2 or not all(map(_INTEGER.fullmatch, texts)):
            return False
        have, bound = map(int, texts)
        return have > bound if self.operator is Operator.GT else have < bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """Taints that a pod puts up with; an empty key is every key, an empty effect every effect.

    Attributes:
        value: the taint's; None: any (`operator: Exists`).
        compared: how the taint's value, a whole number, compares with `value` instead of being
            equal: `Gt` or `Lt` (gate `TaintTolerationComparisonOperators`).
    """

    key: str = ""
    value: str | None = None
    effect: str = ""
    compared: Operator | None = None

    def covers(self, taint: Taint) -> bool:
        """Say whether this taint is among them."""
        same = self.effect in {"", taint.effect} and self.key in {"", taint.key}
        return same and self._takes(taint.value)

    def _takes(self, value: str) -> bool:
        if self.value is None or self.compared is None:
            return self.value in {None, value}
        bound = Requirement(key=self.key, operator=self.compared, values=(self.value,))
        return bound.met({self.key: value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """Requirements of a node's labels and fields that must all be met; an empty term never is.

    Of a node's fields Kubernetes knows `metadata.name`.
    """

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def met(self, name: str, labels: Mapping[str, str]) -> bool:
        """Say whether a node of this name and these labels meets all of them."""
        here = {_NAME_FIELD: name}
        return bool(self.labels or self.fields) and (
            all(each.met(labels) for each in self.labels)
            and all(each.met(here) for each in self.fields)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What a pod says about nodes.

    Attributes:
        selector: labels that the node must have (`nodeSelector`), by key.
        affinity: one of these terms must be met; None: the pod has no such demand.
        gates: names of scheduling gates, which keep the pod from every node.
    """

    tolerations: tuple[Toleration, ...] = ()
    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] | None = None
    gates: tuple[str, ...] = ()

    def tolerates(self, taint: Taint) -> bool:
        """Say whether the pod puts up with a taint."""
        return any(each.covers(taint) for each in self.tolerations)


NO_DEMANDS: Final = Demands()


def refusal(demands: Demands, name: str, host: Host) -> Refusal | None:
    """Return why a node doesn't take the pod, the scheduler's first reason; None when it does."""
    if demands.gates:
        gates = ", ".join(demands.gates)
        detail = f"the pod waits for its scheduling gates to be removed: {gates}"
        return Refusal(reason=Reason.SCHEDULING_GATED, detail=detail)
    if host.cordoned and not demands.tolerates(Taint(key=UNSCHEDULABLE)):
        return Refusal(reason=Reason.NODE_UNSCHEDULABLE, detail=f"node {name} is cordoned")
    for taint in host.taints:
        if taint.effect in _BARRING and not demands.tolerates(taint):
            detail = f"node {name} has the taint {taint}, which the pod does not tolerate"
            return Refusal(reason=Reason.TAINT_NOT_TOLERATED, detail=detail)
    for key, value in demands.selector:
        if host.labels.get(key) != value:
            return _unselected(name, host, key, value)
    if demands.affinity is not None and not any(
        term.met(name, host.labels) for term in demands.affinity
    ):
        detail = f"node {name} meets none of the terms of the pod's required node affinity"
        return Refusal(reason=Reason.NODE_AFFINITY_UNMET, detail=detail)
    return _silence(name, host)


def _silence(name: str, host: Host) -> Refusal | None:
    if not host.silent:
        return None
    detail = f"the agent of node {name} is silent: its kubelet offers none of its cards"
    return Refusal(reason=Reason.AGENT_SILENT, detail=detail)


def refusals(
    demands: Demands, names: Iterable[str], hosts: Mapping[str, Host]
) -> Mapping[str, Refusal]:
    """Return why each of these nodes refuses, by name; nodes that take the pod are left out."""
    answers = ((name, refusal(demands, name, hosts.get(name, OPEN))) for name in sorted(names))
    return {name: answer for name, answer in answers if answer is not None}


NOT_READY: Final = "NotReady"
"""The state of a node whose kubelet says that it isn't ready, or says nothing."""

SILENT: Final = "AgentSilent"
"""The state of a node whose kubelet has lost the agent, and offers none of its cards."""


def states(host: Host) -> tuple[str, ...]:
    """Return what keeps new pods from a node, as `NotReady` or `tainted KEY`; or nothing."""
    keys = dict.fromkeys(each.key for each in host.taints if each.effect in _BARRING)
    cordoned = host.cordoned or UNSCHEDULABLE in keys
    return (
        *((NOT_READY,) if not _NOT_READY.isdisjoint(keys) else ()),
        *((SILENT,) if host.silent else ()),
        *(("cordoned",) if cordoned else ()),
        *(f"tainted {key}" for key in keys if key not in {*_NOT_READY, UNSCHEDULABLE}),
    )


def out_of_service(host: Host) -> bool:
    """Say whether Kubernetes keeps new pods away from a node: cordoned, or not ready."""
    own = (each for each in host.taints if each.key.startswith(OWN_TAINTS))
    return host.cordoned or any(taint.effect in _BARRING for taint in own)


def in_service(host: Host) -> Host:
    """Return a node like this one, without what Kubernetes itself keeps pods away by."""
    kept = (taint for taint in host.taints if not taint.key.startswith(OWN_TAINTS))
    return Host(labels=host.labels, taints=tuple(kept))


def _unselected(name: str, host: Host, key: str, value: str) -> Refusal:
    has = f"{key}={host.labels[key]}" if key in host.labels else f"no label {key}"
    detail = f"node {name} has {has}; the pod's nodeSelector wants {key}={value}"
    return Refusal(reason=Reason.NODE_SELECTOR_UNMET, detail=detail)
