"""Taints, labels, tolerations and affinities of the API as the model's `eligibility` has them."""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from gpustack.model.cluster.eligibility import (
    OWN_TAINTS,
    Demands,
    Host,
    Operator,
    Requirement,
    Taint,
    Term,
    Toleration,
)
from gpustack.model.node import Node
from gpustack.model.request import BadRequest
from gpustack.wire.annotations import annotations_of
from gpustack.wire.keys import Keys
from gpustack.wire.kube.quantities import parse_quantity
from gpustack.wire.quoting import quoted

_TAINT_OF: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("Ready", "False"): "not-ready",
        ("Ready", "Unknown"): "unreachable",
        ("MemoryPressure", "True"): "memory-pressure",
        ("DiskPressure", "True"): "disk-pressure",
        ("PIDPressure", "True"): "pid-pressure",
        ("NetworkUnavailable", "True"): "network-unavailable",
    }
)
"""The taints, of effect NoSchedule, that the node controller makes of a node's conditions."""

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_COMPARED: Final[Mapping[str, Operator]] = MappingProxyType(
    {str(each): each for each in (Operator.GT, Operator.LT)}
)
_FIELD: Final = "metadata.name"  # the only field that `matchFields` knows
_KINDS: Final[Mapping[type, str]] = MappingProxyType(
    {dict: "an object", list: "an array", str: "a text"}
)
T = TypeVar("T")


def agent_silent(keys: Keys, node: Mapping[str, Any], described: Node) -> bool:
    """Say whether a kubelet offers nothing of the cards that its node's agent has described.

    It does so as soon as it loses the agent. A node without any amounts says nothing of that.
    """
    offered = (node.get("status") or {}).get("allocatable")
    if not offered or not described.healthy or keys.gpu_devices not in annotations_of(node):
        return False
    try:
        return parse_quantity(offered.get(keys.vcuda_core, 0)) <= 0
    except ValueError:
        return False  # what can't be read is not known to be nothing


def parse_host(node: Mapping[str, Any], *, silent: bool = False) -> Host:
    """Return what a node says of itself, and whether its agent is silent.

    Conditions count as the taints that the node controller is about to make of them, so that a
    snapshot taken in between gives the same result.
    """
    spec = node.get("spec") or {}
    # By key, for a node may have thousands of taints and of conditions.
    taints = {
        Taint(key=each.get("key") or "", value=each.get("value") or "", effect=each["effect"]): None
        for each in spec.get("taints") or ()
        if each.get("effect")
    }
    status = node.get("status") or {}
    for condition in status.get("conditions") or ():
        name = _TAINT_OF.get((condition.get("type") or "", condition.get("status") or ""))
        if name is not None:
            taints[Taint(key=f"{OWN_TAINTS}{name}")] = None
    labels = (node.get("metadata") or {}).get("labels") or {}
    cordoned = bool(spec.get("unschedulable"))
    return Host(
        labels=labels,
        taints=tuple(taints),
        cordoned=cordoned,
        silent=silent,
        address=_address(status),
    )


def _address(status: Mapping[str, Any]) -> str:
    """Return a node's first internal IP address; nothing where that is none, or has a zone."""
    addresses = status.get("addresses") or ()
    told = (each.get("address") for each in addresses if each.get("type") == "InternalIP")
    address = next(told, None) or ""
    try:
        return "" if "%" in address else str(ipaddress.ip_address(address))
    except ValueError:
        return ""


def parse_demands(pod: Mapping[str, Any]) -> Demands:
    """Return a pod's demands on nodes; `spec.nodeName` is its place, and no demand.

    Raises:
        BadRequest: the API server would not accept it; names the field.
    """
    spec = pod.get("spec") or {}
    selector = _member(spec, "nodeSelector", dict, "spec")
    pairs = ((key, _text(value, f"spec.nodeSelector[{key}]")) for key, value in selector.items())
    gates = (_member(gate, "name", str, place) for place, gate in _objects(spec, "schedulingGates"))
    return Demands(
        tolerations=tuple(
            _toleration(each, place) for place, each in _objects(spec, "tolerations")
        ),
        selector=tuple(sorted(pairs)),
        affinity=_affinity(spec),
        gates=tuple(gates),
    )


def _toleration(toleration: Mapping[str, Any], place: str) -> Toleration:
    key = _member(toleration, "key", str, place)
    value = _member(toleration, "value", str, place)
    effect = _member(toleration, "effect", str, place)
    operator = _member(toleration, "operator", str, place) or "Equal"
    if operator not in {"Equal", "Exists", *_COMPARED}:
        raise BadRequest(f"{place}.operator", f"{quoted(operator)} is not Equal, Exists, Gt or Lt")
    if effect and effect not in _EFFECTS:
        raise BadRequest(f"{place}.effect", f"{quoted(effect)} is not one of {', '.join(_EFFECTS)}")
    if not key and operator != "Exists":
        raise BadRequest(f"{place}.operator", "must be Exists where the key is empty: every taint")
    return Toleration(
        key=key,
        value=None if operator == "Exists" else value,
        effect=effect,
        compared=_COMPARED.get(operator),
    )


def _affinity(spec: Mapping[str, Any]) -> tuple[Term, ...] | None:
    place = "spec.affinity.nodeAffinity"
    affinity = _member(spec, "affinity", dict, "spec")
    node = _member(affinity, "nodeAffinity", dict, "spec.affinity")
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    if node.get(name) is None:
        return None
    required = _member(node, name, dict, place)
    terms = _objects(required, "nodeSelectorTerms", f"{place}.{name}")
    return tuple(
        Term(
            labels=tuple(_requirements(term, "matchExpressions", at)),
            fields=tuple(_requirements(term, "matchFields", at)),
        )
        for at, term in terms
    )


def _requirements(term: Mapping[str, Any], name: str, place: str) -> Iterator[Requirement]:
    for at, each in _objects(term, name, place):
        key = _member(each, "key", str, at)
        operator = _member(each, "operator", str, at)
        values = _member(each, "values", list, at)
        if operator not in tuple(Operator):
            raise BadRequest(
                f"{at}.operator", f"{quoted(operator)} is not one of {', '.join(Operator)}"
            )
        if name == "matchFields" and key != _FIELD:
            raise BadRequest(f"{at}.key", f"{quoted(key)} is not {_FIELD}")
        texts = tuple(_text(value, f"{at}.values[{i}]") for i, value in enumerate(values))
        _check_values(Operator(operator), len(texts), f"{at}.values")
        yield Requirement(key=key, operator=Operator(operator), values=texts)


def _check_values(operator: Operator, count: int, place: str) -> None:
    match operator:
        case Operator.IN | Operator.NOT_IN if count == 0:
            raise BadRequest(place, f"must hold at least one value for {operator}")
        case Operator.EXISTS | Operator.DOES_NOT_EXIST if count:
            raise BadRequest(place, f"must be empty for {operator}")
        case Operator.GT | Operator.LT if count != 1:
            raise BadRequest(place, f"must hold one whole number for {operator}")


def _objects(
    parent: Mapping[str, Any], name: str, place: str = "spec"
) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Return the objects of an array with their places."""
    for index, each in enumerate(_member(parent, name, list, place)):
        at = f"{place}.{name}[{index}]"
        if not isinstance(each, dict):
            raise BadRequest(at, "must be an object")
        yield at, each


def _member(parent: Mapping[str, Any], name: str, kind: type[T], place: str) -> T:
    """Return a member of an object; one that isn't there is empty."""
    value = parent.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise BadRequest(f"{place}.{name}", f"must be {_KINDS[kind]}")
    return value


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise BadRequest(place, f"must be a text; put {quoted(value)} in quotes")
    return value
