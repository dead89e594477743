"""What a report of a fault keeps of a cluster's objects: the fields that are named here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

Picked = dict[str, Any]

_STATE = {"reason": True, "exitCode": True, "startedAt": True, "finishedAt": True}
_CONDITIONS = [{"type": True, "status": True, "reason": True, "lastTransitionTime": True}]
_STATUSES = [
    {"name": True, "ready": True, "restartCount": True,
     "state": {"running": _STATE, "waiting": _STATE, "terminated": _STATE},
     "lastState": {"terminated": _STATE}}
]  # fmt: skip
_NODE: Picked = {
    "metadata": {"name": True, "uid": True, "creationTimestamp": True, "labels": {
        "nvidia-device-enable": True, "gaia.tencent.com/gpu-model": True,
        "gaia.tencent.com/gpu-pool": True}},
    "spec": {"unschedulable": True, "taints": [{"key": True, "effect": True}]},
    "status": {"conditions": _CONDITIONS, "nodeInfo": {
        "kernelVersion": True, "osImage": True, "architecture": True, "kubeletVersion": True,
        "containerRuntimeVersion": True}},
}  # fmt: skip
_POD: Picked = {
    "metadata": {"name": True, "namespace": True, "uid": True, "creationTimestamp": True,
                 "deletionTimestamp": True},
    "spec": {"nodeName": True, "schedulerName": True},
    "status": {"phase": True, "reason": True, "conditions": _CONDITIONS,
               "containerStatuses": _STATUSES, "initContainerStatuses": _STATUSES},
}  # fmt: skip
_EVENT: Picked = {
    "reason": True, "type": True, "count": True, "firstTimestamp": True, "lastTimestamp": True,
    "involvedObject": {"kind": True, "namespace": True, "name": True},
    "source": {"component": True},
}  # fmt: skip
_CARDS: Picked = {
    "version": True, "driver": True, "cuda": True, "links": [[True]],
    "devices": [{"minor": True, "uuid": True, "model": True, "memory": True, "sms": True,
                 "numa": True, "bus": True, "healthy": True, "since": True}],
}  # fmt: skip
_VIOLATIONS: Picked = {
    "version": True,
    "violations": [{"uid": True, "container": True, "reason": True, "since": True}],
}
_MOST = 1024  # characters of a value
_OF_NODES = ("gpu-devices", "gpu-violations")
# Of the annotations of a pod, without our domain; the extender reads no more than 64 containers.
_OF_PODS = frozenset(
    {
        "predicate-time", "predicate-node", "gpu-assigned", "gpu-retry", "gpu-model", "gpu-uuid",
        "gpu-topology", "gpu-placement", "vcuda-core-limit", "driver-path", "gang", "gang-size",
        *(
            f"predicate-gpu-{kind}-{at}"
            for kind in ("idx", "idx-init", "uuid", "uuid-init")
            for at in range(64)
        ),
    }
)  # fmt: skip


def pick(value: Any, form: Any) -> Any:
    """Return of a value what its form names: True keeps a scalar, a list's form is its items'."""
    if isinstance(form, dict):
        fields = value if isinstance(value, dict) else {}
        found = {key: pick(fields[key], inner) for key, inner in form.items() if key in fields}
        return {key: each for key, each in found.items() if each not in (None, {}, [])}
    if isinstance(form, list):
        return [pick(each, form[0]) for each in value] if isinstance(value, list) else []
    if isinstance(value, str):
        return value[:_MOST]
    return value if isinstance(value, bool | int | float) else None


def nodes(found: Iterable[Picked], domain: str) -> list[Picked]:
    """Return nodes that are ours, or could be: with our label, resources or cards."""
    picked = []
    for node in found:
        one, status = pick(node, _NODE), node.get("status", {})
        for field in ("allocatable", "capacity"):
            if ours := _ours(status.get(field), domain):
                one.setdefault("status", {})[field] = ours
        annotations = node["metadata"].get("annotations", {})
        if cards := _said(annotations.get(f"{domain}/gpu-devices"), _CARDS):
            one["cards"] = cards
        if violations := _said(annotations.get(f"{domain}/gpu-violations"), _VIOLATIONS):
            one["violations"] = violations
        if cards or one["metadata"].get("labels") or "allocatable" in one.get("status", {}):
            picked.append(one)
    return picked


def _said(text: Any, form: Picked) -> Picked:
    """Return of a document what its form names."""
    try:
        document = json.loads(text or "{}")
    except (ValueError, TypeError, RecursionError):
        return {"unreadable": True}
    found: Picked = pick(document, form)
    return found


def _ours(amounts: Any, domain: str) -> Picked:
    """Return the amounts of our resources."""
    return {
        key: pick(each, True)
        for key, each in (amounts if isinstance(amounts, dict) else {}).items()
        if key.startswith(f"{domain}/vcuda-")
    }


def pods(found: Iterable[Picked], domain: str) -> list[Picked]:
    """Return the pods that ask for our resources, with our annotations."""
    picked = []
    for pod in found:
        one, spec = pick(pod, _POD), pod.get("spec", {})
        asks = False
        for field in ("containers", "initContainers"):
            containers = [
                {
                    **pick(each, {"name": True, "restartPolicy": True}),
                    "limits": _ours(each.get("resources", {}).get("limits"), domain),
                }
                for each in spec.get(field) or []
            ]
            if containers:
                one.setdefault("spec", {})[field] = containers
            asks = asks or any(each["limits"] for each in containers)
        annotations = pod["metadata"].get("annotations") or {}
        own = {key: key.removeprefix(f"{domain}/") for key in annotations}
        ours = {
            short: pick(annotations[key], True)
            for key, short in own.items()
            if short != key and short in _OF_PODS
        }
        if asks or ours:
            picked.append({**one, **({"annotations": ours} if ours else {})})
    return picked


def events(found: Iterable[Picked]) -> list[Picked]:
    """Return our Events, without their messages: any account may write those in our name."""
    ours = ("gpustack-agent", "gpustack-extender")
    return [
        pick(event, _EVENT)
        for event in found
        if (event.get("source") or {}).get("component") in ours
    ]


def annotation_names(domain: str) -> list[str]:
    """Return the names of our annotations."""
    return sorted(f"{domain}/{name}" for name in (*_OF_PODS, *_OF_NODES))


def names(objects: Iterable[Picked]) -> list[str]:
    """Return the names that texts about these objects have."""
    found = set()
    for one in objects:
        metadata = one["metadata"]
        found.update(metadata[key] for key in ("name", "namespace", "uid") if key in metadata)
        found.update(each["name"] for each in one.get("spec", {}).get("containers", []))
    return sorted(found)


def lines(objects: Iterable[Picked]) -> str:
    """Return objects as JSON, one a line."""
    return "".join(json.dumps(each, sort_keys=True) + "\n" for each in objects)


class FilterModule:
    """The filters, by their names in templates."""

    def filters(self) -> dict[str, Any]:
        """Return them."""
        return {
            "support_annotation_names": annotation_names,
            "support_events": events,
            "support_lines": lines,
            "support_names": names,
            "support_nodes": nodes,
            "support_pods": pods,
        }
