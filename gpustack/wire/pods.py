"""Pods of the API as requests and holdings. Pods are plain dicts, as the API's JSON gives them.

A pod asks for a GPU when any container or init container has a limit above 0 for `vcuda-core` or
`vcuda-memory`. A pod with impossible limits is still a GPU pod, and a bad one: the
original took it for a pod without GPU and let it pass.
"""

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpustack.model.node import Node
from gpustack.model.placement import apply
from gpustack.model.request import (
    BadRequest,
    ContainerKind,
    ContainerRequest,
    PodRequest,
    check_container,
)
from gpustack.model.units import MOST_CARDS
from gpustack.wire.annotations import BadAnnotation, Decision, annotations_of, decode_decision
from gpustack.wire.keys import Keys
from gpustack.wire.kube.quantities import parse_whole
from gpustack.wire.user_keys import LONGEST_BYTES, names_of, parse_user_keys

MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of the API's image of a static pod, which its kubelet knows by another UID."""
CONFIG_HASH: Final = "kubernetes.io/config.hash"
"""The annotation with that UID: 32 hexadecimal digits, where the pod's file names none."""

# As the kubelet makes them (k8s.io/kubernetes 1.37 pkg/kubelet/config/common.go applyDefaults). The
# API server's UIDs have dashes: a mirror made by hand can't stand for another pod of the API.
_HASH: Final = re.compile(r"[0-9a-f]{32}")
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_DAEMON_SET: Final = ("apps/v1", "DaemonSet")
_CONTAINER_LISTS: Final = ("containers", "initContainers")
_NONE: Final = (0, "0")
MOST_CONTAINERS: Final = 64  # of a GPU pod; as the admission policy gpustack-requests
# Where no admission policy is (API servers before 1.30), any user may write a decision: 16 000
# cards of all containers take 1.6 MB of the extender's memory, 7 000 keys 0.7.
MOST_CARDS_ASKED: Final = 4 * MOST_CARDS
MOST_DECISION_KEYS: Final = 2 * MOST_CONTAINERS


def parse_limits(keys: Keys, pod: Mapping[str, Any]) -> PodRequest | None:
    """Return what the limits of a pod ask; None when it is not a GPU pod.

    Only the limits decide what a pod holds: its user may change the user keys at any time.

    Raises:
        BadRequest: impossible limits, or too many containers; names the field.
    """
    spec = pod.get("spec") or {}
    _refuse_many(keys, spec)
    found = [
        _container(keys, container, kind, index, field)
        for field, kind, index, container in _containers(spec)
    ]
    containers = tuple(container for container in found if container is not None)
    if (cards := _cards(containers)) > MOST_CARDS_ASKED:
        problem = f"ask for {cards} cards in all; a pod may ask for {MOST_CARDS_ASKED}"
        raise BadRequest("spec.containers", problem)
    return PodRequest(containers=containers) if containers else None


def parse_held_limits(keys: Keys, pod: Mapping[str, Any]) -> PodRequest | None:
    """Return what the containers of a bound pod ask that may hold a card; None where none may.

    Each container is judged by itself, as the original does (gpu-admission `pkg/util/util.go`): its
    pods run beside containers that ask for memory alone. We place no such pod. One that asks for
    more cards than any pod gets holds none.

    Raises:
        BadRequest: too many containers.
    """
    spec = pod.get("spec") or {}
    _refuse_many(keys, spec)
    found = []
    for field, kind, index, container in _containers(spec):
        with contextlib.suppress(BadRequest):
            found.append(_container(keys, container, kind, index, field))
    containers = tuple(container for container in found if container is not None)
    if not containers or _cards(containers) > MOST_CARDS_ASKED:
        return None
    return PodRequest(containers=containers)


def _cards(containers: Iterable[ContainerRequest]) -> int:
    return sum(container.card_count for container in containers)


def parse_request(keys: Keys, pod: Mapping[str, Any]) -> PodRequest | None:
    """Return what a pod that waits asks; None when it is not a GPU pod.

    Raises:
        BadRequest: impossible limits or user keys; names the field.
    """
    request, problems = parse_readable(keys, pod)
    if problems:
        raise problems[0]
    return request


def parse_readable(
    keys: Keys, pod: Mapping[str, Any]
) -> tuple[PodRequest | None, tuple[BadRequest, ...]]:
    """Return what a pod asks by the user keys that can be read, and what is wrong with the others.

    A bound pod no longer uses them; a waiting pod is refused for each unreadable one.

    Raises:
        BadRequest: as `parse_limits`.
    """
    limits = parse_limits(keys, pod)
    if limits is None:
        return None, ()
    chosen = parse_user_keys(keys, pod)
    return chosen.choose_for(limits), chosen.problems


def is_bound(pod: Mapping[str, Any]) -> bool:
    """Say whether a pod has its node."""
    return bool((pod.get("spec") or {}).get("nodeName"))


def asking(keys: Keys, pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a pod that `parse_request` reads; the pods of one template share it.

    It is bounded: a text longer than a user key may be is cut, and the rest is too long still.

    Raises:
        BadRequest: as `parse_limits`, for too many containers.
    """
    spec, annotations = pod.get("spec") or {}, annotations_of(pod)
    _refuse_many(keys, spec)
    containers = {
        name: [_asking(keys, container) for container in spec[name]]
        for name in _CONTAINER_LISTS
        if spec.get(name)
    }
    if not any(any(each) for each in containers.values()):
        return {}
    written = {
        key: annotations[key][: LONGEST_BYTES + 1] for key in names_of(keys) if key in annotations
    }
    return {"metadata": {"annotations": written}, "spec": containers}


def _asking(keys: Keys, container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a container that is read; empty where it asks for no GPU."""
    limits = (container.get("resources") or {}).get("limits")
    if not limits:
        return {}
    cores, memory = limits.get(keys.vcuda_core, 0), limits.get(keys.vcuda_memory, 0)
    if cores in _NONE and memory in _NONE:
        return {}
    return {
        "name": container.get("name", ""),
        "restartPolicy": container.get("restartPolicy"),
        "resources": {"limits": {keys.vcuda_core: cores, keys.vcuda_memory: memory}},
    }


def _refuse_many(keys: Keys, spec: Mapping[str, Any]) -> None:
    """Refuse a GPU pod of more than `MOST_CONTAINERS` containers."""
    count = sum(len(spec.get(name) or ()) for name in _CONTAINER_LISTS)
    if count <= MOST_CONTAINERS:
        return
    if any(_asking(keys, container) for _, _, _, container in _containers(spec)):
        raise BadRequest(
            "spec.containers",
            f"{count} containers with spec.initContainers; a pod that asks for a GPU may have "
            f"{MOST_CONTAINERS}",
        )


def container_names(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a pod's `spec.containers`, in order."""
    return tuple(each.get("name") or "" for each in pod["spec"].get("containers") or ())


def is_static(pod: Mapping[str, Any]) -> bool:
    """Say whether a pod of the API stands for a static pod of its kubelet."""
    return MIRROR in annotations_of(pod)


def static_uid(pod: Mapping[str, Any]) -> str:
    """Return the UID by which its kubelet knows a static pod; empty where the API has none."""
    found = annotations_of(pod).get(CONFIG_HASH) or "" if is_static(pod) else ""
    return found if _HASH.fullmatch(found) else ""


def leaving(pod: Mapping[str, Any]) -> bool:
    """Say whether a pod is being deleted; its containers may still run."""
    return bool((pod.get("metadata") or {}).get("deletionTimestamp"))


def stays_on_drain(pod: Mapping[str, Any]) -> bool:
    """Say whether a drain leaves a pod where it is: one of a DaemonSet, or the kubelet's own.

    As `kubectl drain` takes them: https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/
    Its user may write any owner into a pod; only its controller makes it anew.
    """
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    makers = (owner for owner in owners if owner.get("controller"))
    return is_static(pod) or any(
        (each.get("apiVersion"), each.get("kind")) == _DAEMON_SET for each in makers
    )


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
    """Return the cards of a pod that is bound or reserved, not finished, and validly decided.

    None for every other pod. A decision that can't be read, or that the pod's limits don't
    justify, holds no card: users can write annotations too. Their user keys change nothing.
    """
    if finished(pod):
        return None
    try:
        request = (parse_held_limits if is_bound(pod) else parse_limits)(keys, pod)
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
        bound=is_bound(pod),
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
