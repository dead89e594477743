"""The annotations that carry a decision: which node, which cards, when, and whether it holds yet.

Keys and formats are the original's, with UUIDs and restartable init containers added. A decision
counts only while the pod's own limits justify it, whichever client wrote it, so reading one needs
the pod's request and refuses a decision that doesn't agree with it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpustack.model.errors import GpustackError
from gpustack.model.node import Node
from gpustack.model.placement import ContainerPlacement, Placement, inherited_minors
from gpustack.model.request import ContainerKind, ContainerRequest, PodRequest
from gpustack.wire.keys import Keys, position
from gpustack.wire.quoting import quoted

# As encode_decision writes them, and nothing else: no sign, no space, no leading zero.
_NUMBER: Final = r"(?:0|[1-9][0-9]{0,18})"
_TIME: Final = re.compile(_NUMBER)
_MINORS: Final = re.compile(rf"{_NUMBER}(?:,{_NUMBER})*")
# Of a list of cards: UUIDs of 40 characters (GPU-, and 36) of as many cards as a node may have.
_LONGEST: Final = 256 * 41
# Of one: NVML_DEVICE_UUID_V2_BUFFER_SIZE of nvml.h, as in a node's record.
_LONGEST_UUID: Final = 96
_LONGEST_NODE: Final = 253  # of any name of the API


class BadAnnotation(GpustackError, ValueError):
    """An annotation that can't be read, or whose value is impossible.

    Attributes:
        key: the full annotation key.
        message: names the key, what stands there, and what is allowed.
    """

    def __init__(self, key: str, problem: str, *, field: str = "") -> None:
        """Take the problem; ``field`` names the place where it isn't the annotation itself."""
        self.key: Final = key
        self.message: Final = f"{field or f'annotation {key}'}: {problem}"
        super().__init__(self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision as it stands on a pod.

    Attributes:
        node: where.
        time_ns: when it was made, Unix nanoseconds; 0 where the original's manager made it, which
            doesn't say.
        assigned: True once the agent has verified every container.
        placement: which cards, in the order of the request's containers.
    """

    node: str
    time_ns: int
    assigned: bool
    placement: Placement


def encode_decision(
    keys: Keys, placement: Placement, now_ns: int, *, assigned: bool = False
) -> dict[str, str]:
    """Return the annotations of a decision made at `now_ns` (Unix nanoseconds).

    Ordinary init containers are left out where they use what the pod's containers will hold:
    every reader derives the same cards (`inherited_minors`). UUIDs are left out where the node
    doesn't publish them.
    """
    written = {
        keys.predicate_time: str(now_ns),
        keys.predicate_node: placement.node,
        keys.gpu_assigned: "true" if assigned else "false",
    }
    for container in placement.containers:
        if _goes_without_saying(container, placement):
            continue
        minors = ",".join(map(str, container.minors))
        written[keys.idx(container.kind, container.index)] = minors
        if all(container.uuids):
            uuids = ",".join(container.uuids)
            written[keys.uuid(container.kind, container.index)] = uuids
    return written


def _goes_without_saying(container: ContainerPlacement, placement: Placement) -> bool:
    if container.kind is not ContainerKind.INIT:
        return False
    return container.minors == inherited_minors(container, placement.containers)


def has_decision(keys: Keys, pod: Mapping[str, Any]) -> bool:
    """Say whether anything of a decision stands on the pod, readable or not."""
    return _mentions_decision(keys, annotations_of(pod))


def annotations_of(pod: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the annotations of any object of the API; none is an empty mapping."""
    return (pod.get("metadata") or {}).get("annotations") or {}


def decode_decision(
    keys: Keys, pod: Mapping[str, Any], request: PodRequest, node: Node | None = None
) -> Decision | None:
    """Read the decision on a pod; None when there is none.

    With `node`, every minor must exist there and every UUID must stand at its minor.

    Raises:
        BadAnnotation: a part is missing or unreadable, is for another node than the pod's, or
            gives a container another number of cards than its limits ask for.
    """
    annotations = annotations_of(pod)
    if not _mentions_decision(keys, annotations):
        return None
    bound = (pod.get("spec") or {}).get("nodeName") or ""
    where = _decided_node(keys, annotations, bound)
    _refuse_strangers(keys, annotations, request)
    placement = Placement(node=where, containers=_containers(keys, annotations, request))
    if node is not None:
        _check_cards(keys, placement, node)
    return Decision(
        node=where,
        time_ns=_time(keys, annotations, bound),
        assigned=_assigned(keys, annotations),
        placement=placement,
    )


def _mentions_decision(keys: Keys, annotations: Mapping[str, str]) -> bool:
    prefixes = (keys.idx_prefix, keys.uuid_prefix)
    return (
        keys.predicate_time in annotations
        or keys.predicate_node in annotations
        or any(key.startswith(prefixes) for key in annotations)
    )


def _decided_node(keys: Keys, annotations: Mapping[str, str], bound: str) -> str:
    # A bound pod's node is known; the original's manager writes cards without naming it.
    where = annotations.get(keys.predicate_node, bound)
    if not where:
        raise BadAnnotation(keys.predicate_node, "is missing; the decision names no node")
    if len(where) > _LONGEST_NODE:
        raise BadAnnotation(keys.predicate_node, f"{quoted(where)} is no node's name")
    if bound and where != bound:
        raise BadAnnotation(
            keys.predicate_node, f"says {quoted(where)}, but the pod runs on {quoted(bound)}"
        )
    return where


def _time(keys: Keys, annotations: Mapping[str, str], bound: str) -> int:
    text = annotations.get(keys.predicate_time)
    if text is None and bound and keys.gpu_assigned in annotations:
        return 0  # the original's manager chose the cards of a pod that no extender had decided
    if text is None:
        raise BadAnnotation(keys.predicate_time, "is missing; write Unix nanoseconds in decimal")
    if not _TIME.fullmatch(text):
        raise BadAnnotation(
            keys.predicate_time, f"{quoted(text)} is not Unix nanoseconds in decimal"
        )
    return int(text)


def decided_ns(keys: Keys, pod: Mapping[str, Any]) -> int:
    """Return the time of the decision on a pod (Unix nanoseconds); 0 where none can be read."""
    text = annotations_of(pod).get(keys.predicate_time, "")
    return int(text) if _TIME.fullmatch(text) else 0


def _assigned(keys: Keys, annotations: Mapping[str, str]) -> bool:
    text = annotations.get(keys.gpu_assigned, "false")
    if text not in {"true", "false"}:
        raise BadAnnotation(keys.gpu_assigned, f"{quoted(text)} is neither 'true' nor 'false'")
    return text == "true"


def _refuse_strangers(keys: Keys, annotations: Mapping[str, str], request: PodRequest) -> None:
    asked = {position(each.kind, each.index) for each in request.containers}
    for prefix in (keys.idx_prefix, keys.uuid_prefix):
        for key in sorted(annotations):
            if key.startswith(prefix) and key.removeprefix(prefix) not in asked:
                raise BadAnnotation(key, "no container at this position asks for a GPU")


def _containers(
    keys: Keys, annotations: Mapping[str, str], request: PodRequest
) -> tuple[ContainerPlacement, ...]:
    written = [
        _container(keys, annotations, asked)
        if keys.idx(asked.kind, asked.index) in annotations
        else None
        for asked in request.containers
    ]
    running = tuple(each for each in written if each is not None)
    return tuple(
        each or _inherit(keys, asked, running)
        for asked, each in zip(request.containers, written, strict=True)
    )


def _container(
    keys: Keys, annotations: Mapping[str, str], asked: ContainerRequest
) -> ContainerPlacement:
    key = keys.idx(asked.kind, asked.index)
    text = annotations[key]
    if len(text) > _LONGEST or not _MINORS.fullmatch(text):
        raise BadAnnotation(key, f"{quoted(text)} is not a comma-separated list of card minors")
    minors = [int(minor) for minor in text.split(",")]
    if len(set(minors)) != len(minors):
        raise BadAnnotation(key, f"{quoted(text)} names a card twice")
    if len(minors) != asked.card_count:
        limits = f"container {quoted(asked.name)} asks for {asked.cores} cores"
        raise BadAnnotation(key, f"{quoted(text)}, but {limits}: {asked.card_count} card(s)")
    uuids = _uuids(keys, annotations, asked)
    # The original writes cards in pick order; here both lists ascend by minor.
    pairs = sorted(zip(minors, uuids, strict=True))
    return ContainerPlacement(
        name=asked.name,
        kind=asked.kind,
        index=asked.index,
        minors=tuple(minor for minor, _ in pairs),
        uuids=tuple(uuid for _, uuid in pairs),
        cores=asked.cores,
        memory_units=asked.memory_units,
    )


def _uuids(keys: Keys, annotations: Mapping[str, str], asked: ContainerRequest) -> list[str]:
    key = keys.uuid(asked.kind, asked.index)
    if key not in annotations:
        return [""] * asked.card_count
    text = annotations[key]
    uuids = text.split(",") if len(text) <= _LONGEST else []
    possible = all(0 < len(each) <= _LONGEST_UUID for each in uuids)
    if not uuids or not possible or len(set(uuids)) != len(uuids):
        raise BadAnnotation(key, f"{quoted(text)} is not a list of different card UUIDs")
    if len(uuids) != asked.card_count:
        raise BadAnnotation(key, f"{len(uuids)} UUIDs for {asked.card_count} card(s)")
    return uuids


def _inherit(
    keys: Keys, asked: ContainerRequest, running: tuple[ContainerPlacement, ...]
) -> ContainerPlacement:
    key = keys.idx(asked.kind, asked.index)
    heir = inherited_minors(asked, running) if asked.kind is ContainerKind.INIT else None
    if heir is None:
        raise BadAnnotation(key, f"is missing; container {quoted(asked.name)} asks for a GPU")
    known = {
        minor: uuid
        for container in running
        for minor, uuid in zip(container.minors, container.uuids, strict=True)
    }
    return ContainerPlacement(
        name=asked.name,
        kind=asked.kind,
        index=asked.index,
        minors=heir,
        uuids=tuple(known[minor] for minor in heir),
        cores=asked.cores,
        memory_units=asked.memory_units,
    )


def _check_cards(keys: Keys, placement: Placement, node: Node) -> None:
    for container in placement.containers:
        for minor, uuid in zip(container.minors, container.uuids, strict=True):
            index = node.index_of(minor)
            if index is None:
                key = keys.idx(container.kind, container.index)
                raise BadAnnotation(key, f"node {node.name} has no card {minor}")
            present = node.cards[index].uuid
            if uuid and present and uuid != present:
                key = keys.uuid(container.kind, container.index)
                raise BadAnnotation(key, f"card {minor} is {present} now, not {uuid}")
