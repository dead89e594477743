"""Pods of the API as requests and holdings. Pods are plain dicts, as the API's JSON gives them.

A pod asks for a GPU when any container or init container has a limit above 0 for `vcuda-core` or
`vcuda-memory`. One that asks in a way that doesn't exist is still a GPU pod, and a bad one: the
original took it for a pod without GPU and let it pass.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gpustack.model.device import Node, label_safe_model
from gpustack.model.holding import apply
from gpustack.model.request import (
    BadRequest,
    ContainerKind,
    ContainerRequest,
    PodRequest,
    Selector,
    Strategy,
    Topology,
    check_container,
)
from gpustack.wire.annotations import BadAnnotation, Decision, Keys, annotations_of, decode_decision
from gpustack.wire.quantities import parse_whole

_MIRROR: Final = "kubernetes.io/config.mirror"  # the API's image of a static pod
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_CONTAINER_LISTS: Final = ("containers", "initContainers")


def parse_limits(keys: Keys, pod: Mapping[str, Any]) -> PodRequest | None:
    """Return what the limits of a pod ask; None when it is not a GPU pod.

    What a pod holds is judged by this alone: its user may change the user keys at any time.

    Raises:
        BadRequest: limits that don't exist; names the field.
    """
    spec = pod.get("spec") or {}
    found = [
        _container(keys, container, kind, index, field)
        for field, kind, index, container in _containers(spec)
    ]
    containers = tuple(container for container in found if container is not None)
    return PodRequest(containers=containers) if containers else None


def parse_request(keys: Keys, pod: Mapping[str, Any]) -> PodRequest | None:
    """Return what a pod that waits asks; None when it is not a GPU pod.

    Raises:
        BadRequest: limits or user keys that don't exist; names the field.
    """
    limits = parse_limits(keys, pod)
    return None if limits is None else with_user_keys(keys, pod, limits)


def with_user_keys(keys: Keys, pod: Mapping[str, Any], limits: PodRequest) -> PodRequest:
    """Return what the limits of a pod ask, of the cards that its user keys allow.

    Raises:
        BadRequest: a user key that can't be read; names the field.
    """
    annotations = annotations_of(pod)
    node, card = _strategies(keys.gpu_placement, annotations.get(keys.gpu_placement))
    return replace(
        limits,
        # Somebody may write the driver's name, with its spaces; unread, it would exclude nothing.
        models=_selector(keys.gpu_model, annotations.get(keys.gpu_model), label_safe_model),
        uuids=_selector(keys.gpu_uuid, annotations.get(keys.gpu_uuid)),
        topology=_topology(keys.gpu_topology, annotations.get(keys.gpu_topology)),
        node_strategy=node,
        card_strategy=card,
    )


def asking(keys: Keys, pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a pod that `parse_request` reads; the pods of one template share it."""
    spec, annotations = pod.get("spec") or {}, annotations_of(pod)
    conditions = (keys.gpu_placement, keys.gpu_model, keys.gpu_uuid, keys.gpu_topology)
    return {
        "metadata": {
            "annotations": {key: annotations[key] for key in conditions if key in annotations}
        },
        "spec": {name: spec[name] for name in _CONTAINER_LISTS if spec.get(name)},
    }


def container_names(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a pod's `spec.containers`, in order."""
    return tuple(each.get("name") or "" for each in pod["spec"].get("containers") or ())


def core_limit(keys: Keys, pod: Mapping[str, Any]) -> int | None:
    """Return the burst ceiling of a pod in percent, at most 100; None when it has none.

    Raises:
        BadAnnotation: not a whole number of percent above 0.
    """
    text = annotations_of(pod).get(keys.core_limit)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0):
        raise BadAnnotation(keys.core_limit, f"{text!r} is not a percentage; write 1 to 100")
    return min(100, int(text))


def leaving(pod: Mapping[str, Any]) -> bool:
    """Say whether somebody has deleted a pod; its containers may still run."""
    return bool((pod.get("metadata") or {}).get("deletionTimestamp"))


def stays_on_drain(pod: Mapping[str, Any]) -> bool:
    """Say whether a drain leaves a pod where it is: one of a DaemonSet, or the kubelet's own.

    As `kubectl drain` takes them: https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/
    """
    metadata = pod.get("metadata") or {}
    owners = metadata.get("ownerReferences") or ()
    mirrored = _MIRROR in (metadata.get("annotations") or {})
    return mirrored or any(owner.get("kind") == "DaemonSet" for owner in owners)


def finished(pod: Mapping[str, Any]) -> bool:
    """Say whether a pod has ended. A terminating one has not: its containers still run."""
    return (pod.get("status") or {}).get("phase") in _FINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A pod that holds cards."""

    namespace: str
    name: str
    uid: str
    bound: bool
    decision: Decision


def holding(keys: Keys, pod: Mapping[str, Any]) -> Holding | None:
    """Return what a pod holds: it is bound or reserved, not finished, and validly decided.

    None for every other pod. A decision that can't be read, or that the pod's limits don't
    justify, holds nothing: users can write annotations too.
    """
    if finished(pod):
        return None
    try:
        request = parse_limits(keys, pod)
        decision = None if request is None else decode_decision(keys, pod, request)
    except (BadRequest, BadAnnotation):
        return None
    if decision is None:
        return None
    metadata = pod.get("metadata") or {}
    return Holding(
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        bound=bool((pod.get("spec") or {}).get("nodeName")),
        decision=decision,
    )


def usage(keys: Keys, node: Node, pods: Iterable[Mapping[str, Any]]) -> Node:
    """Return the node with the cards taken that `pods` hold on it; others are passed over."""
    for pod in pods:
        held = holding(keys, pod)
        if held is not None and held.decision.node == node.name:
            node = apply(node, held.decision.placement)
    return node


def _containers(
    spec: Mapping[str, Any],
) -> Iterable[tuple[str, ContainerKind, int, Mapping[str, Any]]]:
    for index, container in enumerate(spec.get("containers") or ()):
        yield f"spec.containers[{index}]", ContainerKind.APP, index, container
    for index, container in enumerate(spec.get("initContainers") or ()):
        restarts = container.get("restartPolicy") == "Always"
        kind = ContainerKind.SIDECAR if restarts else ContainerKind.INIT
        yield f"spec.initContainers[{index}]", kind, index, container


def _container(
    keys: Keys, container: Mapping[str, Any], kind: ContainerKind, index: int, field: str
) -> ContainerRequest | None:
    limits = (container.get("resources") or {}).get("limits") or {}
    core_field = f"{field}.resources.limits[{keys.vcuda_core}]"
    memory_field = f"{field}.resources.limits[{keys.vcuda_memory}]"
    return check_container(
        name=container.get("name", ""),
        kind=kind,
        index=index,
        cores=_quantity(core_field, limits.get(keys.vcuda_core, 0)),
        memory_units=_quantity(memory_field, limits.get(keys.vcuda_memory, 0)),
        core_field=core_field,
        memory_field=memory_field,
    )


def _quantity(field: str, value: object) -> int:
    try:
        return parse_whole(value)
    except ValueError as error:
        raise BadRequest(field, str(error)) from None


def _field(key: str) -> str:
    return f"metadata.annotations[{key}]"


def _selector(key: str, text: str | None, spelt: Callable[[str], str] = str.strip) -> Selector:
    include: list[str] = []
    exclude: list[str] = []
    for word in [] if text is None else text.split(","):
        name = word.strip()
        wanted = spelt(name.removeprefix("!"))
        if not wanted:
            raise BadRequest(_field(key), f"{text!r} has an empty name; write A100,!P40")
        (exclude if name.startswith("!") else include).append(wanted)
    return Selector(include=tuple(include), exclude=tuple(exclude))


def _topology(key: str, text: str | None) -> Topology:
    if text is None:
        return Topology.BEST_EFFORT
    try:
        return Topology(text.strip())
    except ValueError:
        allowed = ", ".join(each.value for each in Topology)
        raise BadRequest(_field(key), f"{text!r} is not one of {allowed}") from None


def _strategies(key: str, text: str | None) -> tuple[Strategy, Strategy]:
    if text is None:
        return Strategy.BINPACK, Strategy.BINPACK
    try:
        if "=" not in text:
            both = Strategy(text.strip())
            return both, both
        pairs = [part.partition("=") for part in text.split(",")]
        chosen = {name.strip(): Strategy(value.strip()) for name, _, value in pairs}
        if len(chosen) != len(pairs) or not chosen.keys() <= {"node", "card"}:
            raise ValueError(text)
    except ValueError:
        allowed = "binpack, spread, or node=spread,card=binpack"
        raise BadRequest(_field(key), f"{text!r} is not {allowed}") from None
    return chosen.get("node", Strategy.BINPACK), chosen.get("card", Strategy.BINPACK)
