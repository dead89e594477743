"""Pods and nodes as the cache keeps them, without an API server."""

import itertools
from dataclasses import replace
from typing import Any

from extender.cache.cache import ClusterCache
from extender.cache.decode import NodeState
from extender.cache.node_results import NodeResults
from extender.cache.pods import PodState
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.request import PodRequest
from gpustack.wire.annotations import Decision

_VERSIONS = itertools.count(1)


def known(node: Node) -> NodeState:
    """A node as a watch shows it, newer than all before."""
    return NodeState(node=node, version=next(_VERSIONS))


def waiting(uid: str, request: PodRequest | None, **fields: Any) -> PodState:
    """An unbound pod, newer than all before; ``fields`` replaces any of its fields."""
    shape = None
    if request is not None:
        nameless = tuple(replace(each, name="") for each in request.containers)
        shape = replace(request, containers=nameless)
    values: dict[str, Any] = {
        "uid": uid,
        "namespace": "default",
        "name": uid,
        "version": next(_VERSIONS),
        "node": "",
        "finished": False,
        "deletion": False,
        "gated": False,
        "priority": 0,
        "nominated": "",
        "labels_text": b"",
        "request": request,
        "shape": shape,
        "problem": None,
        "decision": None,
        "decision_keys": (),
        "unschedulable": "",
        "unschedulable_ns": 0,
    }
    return PodState(**{**values, **fields})


def running(pod: PodState, placement: Placement, **fields: Any) -> PodState:
    """The same pod, bound with these cards."""
    decision = Decision(node=placement.node, time_ns=1, assigned=True, placement=placement)
    changes = {"node": placement.node, "decision": decision, "version": next(_VERSIONS), **fields}
    return replace(pod, **changes)


def bound(seen: ClusterCache, uid: str, request: PodRequest, node: str, **fields: Any) -> PodState:
    """Bind a pod to a node of a cache, with the cards that it gets there now; returns the pod."""
    base = seen.node(node)
    assert base is not None
    placement = place(base, request)
    assert isinstance(placement, Placement)
    made = running(waiting(uid, request), placement, **fields)
    seen.pod_event("ADDED", made)
    return made


def nowhere(seen: ClusterCache) -> NodeResults:
    """What is said to a pod that there is no node for, now."""
    return NodeResults((), (), rooms=seen.rooms)


def view(**options: Any) -> ClusterCache:
    values: dict[str, Any] = {"reservation_seconds": 900.0, **options}
    return ClusterCache(**values)
