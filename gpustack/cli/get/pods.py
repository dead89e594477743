"""``gpustack get pods``: the pods that ask for cards, those that wait and those that hold some."""

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gpustack.cli import clusters
from gpustack.cli.get.filters import Filters, Question
from gpustack.cli.get.label_selector import selects
from gpustack.cli.output.age import age_text
from gpustack.cli.output.listing import ListedItem, Listing
from gpustack.cli.output.printing import Alarm
from gpustack.model.cluster.cluster import Cluster
from gpustack.model.node import Node
from gpustack.model.placement import (
    ContainerPlacement,
    Placement,
    given,
    models_of,
    sidecars_before,
)
from gpustack.model.request import ANY, BadRequest, ContainerKind, ContainerRequest, PodRequest
from gpustack.model.units import CORES_PER_CARD, cards_text
from gpustack.wire.keys import Keys
from gpustack.wire.kube.pod_history import unscheduled, without_preemption
from gpustack.wire.one_line import one_line
from gpustack.wire.pods import (
    finished,
    is_bound,
    leaving,
    parse_held_limits,
    parse_limits,
    parse_readable,
)
from gpustack.wire.violations import ShareViolation, as_json

WAITING: Final = "Waiting"  # no node has been chosen
RESERVED: Final = "Reserved"  # cards are kept for it until it is bound
RUNNING: Final = "Running"  # bound, and its cards are known; its containers may be starting
TERMINATING: Final = "Terminating"  # is being deleted and holds its cards to the end
UNDECIDED: Final = "Undecided"  # bound, and its cards aren't known
STATES: Final = (WAITING, RESERVED, RUNNING, TERMINATING, UNDECIDED)

_HEAD: Final = ("NAMESPACE", "POD", "STATE", "CARDS", "NODE", "AGE", "REASON")
_WIDE: Final = ("MODEL", "POOL", "PRIORITY", "MINORS")
_LONGEST_REASON: Final = 1024  # characters; an Event's message may have so many
_LONGEST_CELL: Final = 160  # of a reason in a table
_NAMESPACE: Final = "default"  # of a pod of a file that names none


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pod:
    """A pod that asks for cards: its object, its state, and what it asks or holds."""

    item: Mapping[str, Any]
    state: str
    hundredths: int  # of a card; what it holds, else what it asks
    reason: str = ""  # why it waits or is undecided
    request: PodRequest | None = None  # of one that holds no card, where it can be read
    placement: Placement | None = None
    violations: Sequence[ShareViolation] = ()  # what its node's agent says of it


def listing(question: Question) -> Listing:
    """Return the pods by namespace and name."""
    filters = question.filters
    wanted = {
        card.model
        for node in question.cluster.nodes.values()
        for card in node.cards
        if filters.takes_a_model([card.model])
    }
    held = {(each.namespace, each.name): each.placement for each in question.cluster.tenants}
    found = [
        pod
        for item in question.snapshot.pods
        if filters.namespace in {"", _namespace(item)}
        and selects(filters.selector, item["metadata"].get("labels") or {})
        and (pod := _read(question.keys, item, held.get(_name(item)))) is not None
        and (not filters.states or pod.state in filters.states)
        and _takes(filters, question.cluster, pod, wanted)
    ]
    found.sort(key=lambda pod: (_namespace(pod.item), pod.item["metadata"]["name"]))
    said = clusters.violations(question.keys, question.snapshot)
    found = [replace(pod, violations=clusters.violations_of(pod.item, said)) for pod in found]
    now = datetime.datetime.now(datetime.UTC)
    counts, cards = Counter[str](), Counter[str]()
    for pod in found:
        counts[pod.state] += 1
        cards[pod.state] += _hundredths(question.cluster, pod)
    sums = {
        state.lower(): {"pods": counts[state], "cards": cards[state] / CORES_PER_CARD}
        for state in STATES
    }
    return Listing(
        kind="pods",
        head=_HEAD,
        wide_head=_WIDE,
        items=[_listed(question.cluster, pod, now) for pod in found],
        sums=sums,
        sums_rows=[
            ("STATE", "PODS", "CARDS"),
            *(
                (state, counts[state], cards_text(cards[state]))
                for state in STATES
                if counts[state]
            ),
            ("all", len(found), cards_text(cards.total())),
        ],
    )


def _name(item: Mapping[str, Any]) -> tuple[str, str]:
    """Return a pod's namespace, as a tenant has it, and its name."""
    return item["metadata"].get("namespace") or "", item["metadata"]["name"]


def _namespace(item: Mapping[str, Any]) -> str:
    return str(item["metadata"].get("namespace") or _NAMESPACE)


def _read(keys: Keys, item: Mapping[str, Any], placement: Placement | None) -> _Pod | None:
    """Return a pod of the API as one that asks for cards; None where it asks for none.

    `placement` is what it holds.
    """
    bound = is_bound(item)
    if placement is not None:
        state = TERMINATING if leaving(item) else RUNNING if bound else RESERVED
        return _Pod(item=item, state=state, hundredths=0, placement=placement)
    if finished(item):
        return None
    state = UNDECIDED if bound else WAITING
    problems: Sequence[BadRequest] = ()
    try:
        if bound:
            request = parse_held_limits(keys, item) or parse_limits(keys, item)
        else:
            request, problems = parse_readable(keys, item)
    except BadRequest as error:
        return _Pod(item=item, state=state, hundredths=0, reason=error.message)
    if request is None:
        return None
    if problems:
        reason = problems[0].message
    else:
        reason = clusters.undecided(keys, item, request) or _unscheduled(item)
    asked = _at_most(request.containers)
    return _Pod(item=item, state=state, hundredths=asked, reason=reason, request=request)


def _unscheduled(item: Mapping[str, Any]) -> str:
    """Return what the scheduler says of a pod that it could not place; empty before it has."""
    condition = unscheduled(item.get("status") or {})
    message = condition.get("message") or condition.get("reason")
    return without_preemption(message) if isinstance(message, str) else ""


def _at_most(containers: Iterable[ContainerRequest | ContainerPlacement]) -> int:
    """Return the hundredths of cards that a pod holds at its largest moment."""
    found = list(containers)
    running = sum(each.cores for each in found if each.kind is not ContainerKind.INIT)
    starting = (
        init.cores + sum(each.cores for each in sidecars_before(found, init.index))
        for init in found
        if init.kind is ContainerKind.INIT
    )
    return max(running, *starting, 0)


def _takes(filters: Filters, cluster: Cluster, pod: _Pod, wanted: set[str]) -> bool:
    """Say whether node, pool and model are asked for.

    A waiting pod is on no node and in no pool; it has each model that it would take.
    """
    name = _node(pod)
    node = cluster.nodes.get(name) or Node(name=name)
    if (filters.node or filters.pool) and not (name and filters.takes_node(node)):
        return False
    if not filters.model:
        return True
    if pod.placement is not None:
        return filters.takes_a_model(_models(node, pod.placement))
    if pod.request is None:
        return False
    request = replace(pod.request, uuids=ANY)
    return any(request.accepts(model, "") for model in wanted)


def _node(pod: _Pod) -> str:
    if pod.placement is not None:
        return pod.placement.node
    return str((pod.item.get("spec") or {}).get("nodeName") or "")


def _models(node: Node, placement: Placement) -> list[str]:
    return sorted({model for model in models_of(node, placement).values() if model})


def _listed(cluster: Cluster, pod: _Pod, now: datetime.datetime) -> ListedItem:
    metadata, name = pod.item["metadata"], _node(pod)
    node = cluster.nodes.get(name) or Node(name=name)
    models = [] if pod.placement is None else _models(node, pod.placement)
    containers = _containers(pod)
    priority = (pod.item.get("spec") or {}).get("priority")
    created = str(metadata.get("creationTimestamp") or "")
    reason = one_line(pod.reason, _LONGEST_REASON)
    cards = _hundredths(cluster, pod)
    value = {
        "namespace": _namespace(pod.item),
        "pod": metadata["name"],
        "state": pod.state,
        "node": name or None,
        "pool": node.pool,
        "models": models,
        "cards": cards / CORES_PER_CARD,
        "containers": containers,
        "priority": priority if isinstance(priority, int) else None,
        "created": one_line(created, 64),
        "reason": reason,
        "violations": as_json(pod.violations),
    }
    state = Alarm(pod.state) if pod.state == UNDECIDED else pod.state
    broken = [f"{each.reason} ({each.container})" for each in pod.violations]
    words = one_line(", ".join([*filter(None, [reason]), *broken]), _LONGEST_CELL)
    row = (
        value["namespace"], metadata["name"], state, cards_text(cards), name or "-",
        age_text(created, now), Alarm(words) if broken else words or "-",
    )  # fmt: skip
    minors = (f"{each['name']}={','.join(map(str, each['minors']))}" for each in containers)
    wide = (
        ",".join(models) or "-",
        node.pool or "-",
        "-" if value["priority"] is None else value["priority"],
        " ".join(minors) if pod.placement is not None else "-",
    )
    key = f"{value['namespace']}/{metadata['name']}"
    return ListedItem(key=key, name=key, value=value, rows=[row], wide=[wide])


def _hundredths(cluster: Cluster, pod: _Pod) -> int:
    """Return what a pod holds, or else what it asks."""
    if pod.placement is None:
        return pod.hundredths
    node = cluster.nodes.get(pod.placement.node)
    if node is None:  # it has gone, and its cards with it: what was decided is left
        return _at_most(pod.placement.containers)
    return sum(use.cores for use in given(node, pod.placement).values())


def _containers(pod: _Pod) -> list[dict[str, Any]]:
    found: Iterable[ContainerRequest | ContainerPlacement] = ()
    if pod.placement is not None:
        found = pod.placement.containers
    elif pod.request is not None:
        found = pod.request.containers
    return [
        {
            "name": each.name,
            "cores": each.cores,
            "memory_units": each.memory_units,
            "minors": list(each.minors) if isinstance(each, ContainerPlacement) else [],
            "uuids": list(each.uuids) if isinstance(each, ContainerPlacement) else [],
        }
        for each in found
    ]
