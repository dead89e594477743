"""The GPU pods of nodes that are drained: which need another place, which don't, and why."""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpustack.model.cluster import what_if
from gpustack.model.cluster.cluster import Pod
from gpustack.model.cluster.what_if import Unplaced
from gpustack.model.refusal import Reason, Refusal
from gpustack.model.request import BadRequest, PodRequest
from gpustack.wire.files.snapshots import Snapshot
from gpustack.wire.keys import Keys
from gpustack.wire.kube.eligibility import parse_demands
from gpustack.wire.pods import (
    container_names,
    finished,
    holding,
    leaving,
    parse_held_limits,
    parse_readable,
    stays_on_drain,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainedPod:
    """A pod to place, and the names of all its containers, also those that hold no card."""

    pod: Pod
    containers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staying:
    """A pod of a drained node that needs no other place, and why."""

    title: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """The effect of a drain on the pods of its nodes.

    Attributes:
        moving: the pods to place elsewhere, the most demanding first.
        refused: those that hold cards and get none elsewhere: their limits ask what can't be.
        staying: those that need no other place.
        nothing: why there is nothing to place, by node; only nodes without a pod to place.
    """

    moving: tuple[DrainedPod, ...] = ()
    refused: tuple[Unplaced, ...] = ()
    staying: tuple[Staying, ...] = ()
    nothing: tuple[tuple[str, str], ...] = ()


def read(keys: Keys, snapshot: Snapshot, nodes: Collection[str], others: Iterable[str]) -> Drain:
    """Return which GPU pods of these nodes move to others, which stay, and why.

    Raises:
        SourceError: a pod has demands on nodes that the API server would refuse; names the place.
    """
    moving: dict[str, DrainedPod] = {}
    refused: list[Unplaced] = []
    staying: dict[str, list[Staying]] = {node: [] for node in nodes}
    emptied = set(nodes)
    names = tuple(others)
    for item, request, problem, node in _here(keys, snapshot, nodes):
        if why := _why_it_stays(item):
            staying[node].append(Staying(title="/".join(_names(item)), why=why))
            continue
        emptied.discard(node)
        asked = _asked(snapshot, item, request)
        if problem is None:
            moving[asked.pod.title] = asked
        else:
            refusal = Refusal(reason=Reason.BAD_REQUEST, detail=problem.message)
            refused.append(Unplaced(pod=asked.pod, refusals=dict.fromkeys(names, refusal)))
    order = what_if.in_order_of_demand(each.pod for each in moving.values())
    return Drain(
        moving=tuple(moving[pod.title] for pod in order),
        refused=tuple(refused),
        staying=tuple(each for several in staying.values() for each in several),
        nothing=tuple(
            (node, "all GPU pods on it stay" if staying[node] else "no pod on it asks for a GPU")
            for node in nodes
            if node in emptied
        ),
    )


def _asked(snapshot: Snapshot, item: Mapping[str, Any], request: PodRequest) -> DrainedPod:
    try:
        demands = parse_demands(item)
    except BadRequest as error:
        raise snapshot.error(item, error) from error
    namespace, name = _names(item)
    pod = Pod(namespace=namespace, name=name, request=request, demands=demands)
    return DrainedPod(pod=pod, containers=container_names(item))


def _why_it_stays(pod: Mapping[str, Any]) -> str:
    """Return why a drain need not place a pod; empty when it must."""
    if stays_on_drain(pod):
        return "of a DaemonSet or static: it goes with its node"
    return "deleted already" if leaving(pod) else ""


def _here(
    keys: Keys, snapshot: Snapshot, nodes: Collection[str]
) -> Iterator[tuple[Mapping[str, Any], PodRequest, BadRequest | None, str]]:
    """Yield the GPU pods that are bound to the nodes, or hold cards of them by a reservation.

    With each comes what it asks, or else what it holds and why a pod like it gets no card.
    """
    for item in snapshot.pods if nodes else ():
        if finished(item) or (node := _where(keys, item)) not in nodes:
            continue
        request, problem = _request(keys, item)
        if request is not None:
            yield item, request, problem, node


def _request(keys: Keys, pod: Mapping[str, Any]) -> tuple[PodRequest | None, BadRequest | None]:
    try:
        return parse_readable(keys, pod)[0], None
    except BadRequest as error:
        with contextlib.suppress(BadRequest):  # too many containers: it holds no card
            return parse_held_limits(keys, pod), error
        return None, None


def _where(keys: Keys, pod: Mapping[str, Any]) -> str:
    """Return the node that a pod is bound to, or else reserved on; empty where there is none."""
    bound: str | None = (pod.get("spec") or {}).get("nodeName")
    if bound:
        return bound
    held = holding(keys, pod)
    return "" if held is None else held.decision.node


def _names(pod: Mapping[str, Any]) -> tuple[str, str]:
    metadata = pod["metadata"]
    return metadata.get("namespace") or "default", metadata["name"]


def rows(drain: Drain) -> Iterator[list[Sequence[object]]]:
    """Yield the table of the pods that stay, and that of the nodes with nothing to place."""
    if drain.staying:
        yield [("STAYS", "WHY"), *((each.title, each.why) for each in drain.staying)]
    if drain.nothing:
        yield [("NOTHING TO PLACE FROM", "WHY"), *drain.nothing]
