"""A node's cards, links and health as the node's annotation carries them, and back.

`links` says of a pair that NVLink joins nothing about its PCIe path, which the original's tree is
made of. So a node that knows the paths and has such a pair publishes them, too, as `paths`; a
reader that doesn't know this key passes it over.

Nodes that the original gpu-manager still runs carry no annotation: they count as equal cards
without links, as many as their `vcuda-core` holds hundreds.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

import msgspec

from gpustack.model.device import Card, Node, arrange
from gpustack.model.topology import BadLinks, Links, check_links
from gpustack.model.units import CORES_PER_CARD, MEMORY_UNIT_BYTES
from gpustack.wire import schemas
from gpustack.wire.annotations import BadAnnotation, Keys, annotations_of
from gpustack.wire.quantities import parse_quantity

VERSION: Final = 1
MODEL_LABEL: Final = "gaia.tencent.com/gpu-model"
POOL_LABEL: Final = "gaia.tencent.com/gpu-pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLabels:
    """The labels that name a node's pool, and its cards' model where nobody publishes the cards.

    The original's configuration chose them by `GPUModelLabel` and `GPUPoolLabel`.
    """

    model: str = MODEL_LABEL
    pool: str = POOL_LABEL


LABELS: Final = NodeLabels()


_Token = Annotated[str, msgspec.Meta(pattern="^(X|NV[1-9][0-9]?|PIX|PXB|PHB|NODE|SYS)$")]
_Path = Annotated[str, msgspec.Meta(pattern="^(X|PIX|PXB|PHB|NODE|SYS)$")]


class _Device(TypedDict):
    minor: Annotated[int, msgspec.Meta(ge=0, le=1_048_575)]
    uuid: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9._/-]+$")]
    model: str
    memory: Annotated[int, msgspec.Meta(ge=0, le=9_007_199_254_740_991)]
    sms: NotRequired[Annotated[int, msgspec.Meta(ge=0)]]
    numa: NotRequired[Annotated[int, msgspec.Meta(ge=0)] | None]
    bus: NotRequired[str]
    healthy: bool
    since: NotRequired[str]
    reason: NotRequired[str]


class _Devices(TypedDict):
    """What the schema `gpu-devices` allows, or less: a list of 5000 nodes has no time for it."""

    version: Literal[1]
    driver: NotRequired[str]
    cuda: NotRequired[str]
    devices: Annotated[list[_Device], msgspec.Meta(max_length=256)]
    links: list[list[_Token]]
    paths: NotRequired[list[list[_Path]]]


_PLAIN: Final = msgspec.json.Decoder(_Devices)


def encode_devices(node: Node) -> str:
    """Return the value of the annotation `gpu-devices`: one line of JSON, keys in fixed order.

    Without blanks: schedulers that send whole nodes send it a thousand times for every pod.
    """
    body = {
        "version": VERSION,
        "driver": node.driver,
        "cuda": node.cuda,
        "devices": [_device(card) for card in node.cards],
        "links": [list(row) for row in node.links],
    }
    if node.paths and node.paths != node.links:
        body["paths"] = [list(row) for row in node.paths]
    return json.dumps(body, separators=(",", ":"))


def _device(card: Card) -> dict[str, Any]:
    return {
        "minor": card.minor,
        "uuid": card.uuid,
        "model": card.model,
        "memory": card.memory_bytes,
        "sms": card.sms,
        "numa": card.numa,
        "bus": card.bus,
        "healthy": card.healthy,
        "since": card.since,
        "reason": card.reason,
    }


def decode_node(keys: Keys, node_json: Mapping[str, Any], labels: NodeLabels = LABELS) -> Node:
    """Read a node of the API, with nothing taken of its cards yet.

    Raises:
        BadAnnotation: the annotation isn't JSON, has an unknown version, or describes no machine;
            names the place within it.
    """
    metadata = node_json.get("metadata") or {}
    name = metadata.get("name", "")
    written = metadata.get("labels") or {}
    pool = written.get(labels.pool, "")
    text = annotations_of(node_json).get(keys.gpu_devices)
    if text is None:
        model = written.get(labels.model, "")
        return Node(name=name, cards=_equal_cards(keys, node_json, model), pool=pool)
    return replace(_decode(keys.gpu_devices, text), name=name, pool=pool)


@functools.lru_cache(maxsize=4096)  # every heartbeat of a node brings the same text again
def _decode(key: str, text: str) -> Node:
    body = _body(key, text)
    cards = tuple(_card(device) for device in body["devices"])
    _check_distinct(key, cards)
    arranged, links = arrange(cards, _matrix(key, body, "links"))
    _, paths = arrange(cards, _matrix(key, body, "paths"))
    return Node(
        name="",
        cards=arranged,
        links=links,
        paths=paths,
        driver=body.get("driver", ""),
        cuda=body.get("cuda", ""),
    )


def _body(key: str, text: str) -> Mapping[str, Any]:
    """Read the JSON and check it against its schema."""
    try:
        return _PLAIN.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass  # what the quick reader doesn't take, the schema judges, and names
    try:
        body = json.loads(text)
    except ValueError as error:
        raise BadAnnotation(key, f"is not JSON: {error}") from None
    except RecursionError:
        raise BadAnnotation(key, "is nested too deeply") from None
    if isinstance(body, dict) and body.get("version", VERSION) != VERSION:
        version = body["version"]
        raise BadAnnotation(key, f"version {version!r} is not known; this reader knows {VERSION}")
    problems = schemas.problems(schemas.load("gpu-devices"), body)
    if problems:
        raise BadAnnotation(key, problems[0])
    found: Mapping[str, Any] = body
    return found


def _matrix(key: str, body: Mapping[str, Any], name: str) -> Links:
    tokens: Links = tuple(tuple(row) for row in body.get(name, ()))
    try:
        return _checked(tokens, len(body["devices"]), name) if tokens else ()
    except BadLinks as error:
        raise BadAnnotation(key, str(error)) from None


@functools.lru_cache(maxsize=256)  # a fleet's nodes come in few kinds
def _checked(tokens: Links, size: int, name: str) -> Links:
    check_links(tokens, size, name)
    return tokens


def _card(device: Mapping[str, Any]) -> Card:
    return Card(
        minor=int(device["minor"]),
        uuid=device["uuid"],
        model=device["model"],
        memory_bytes=int(device["memory"]),
        sms=int(device.get("sms", 0)),
        numa=device.get("numa"),
        bus=device.get("bus", ""),
        healthy=device["healthy"],
        since=device.get("since", ""),
        reason=device.get("reason", ""),
    )


def _check_distinct(key: str, cards: tuple[Card, ...]) -> None:
    for name in ("minor", "uuid"):
        values = [getattr(card, name) for card in cards]
        for position, value in enumerate(values):
            if value in values[:position]:
                raise BadAnnotation(key, f"devices[{position}].{name}: {value!r} stands twice")


def _equal_cards(keys: Keys, node_json: Mapping[str, Any], model: str) -> tuple[Card, ...]:
    count = _allocatable(node_json, keys.vcuda_core) // CORES_PER_CARD
    if count == 0:
        return ()
    memory_units = _allocatable(node_json, keys.vcuda_memory) // count
    memory_bytes = memory_units * MEMORY_UNIT_BYTES
    return tuple(
        Card(minor=minor, uuid="", model=model, memory_bytes=memory_bytes) for minor in range(count)
    )


def _allocatable(node_json: Mapping[str, Any], resource: str) -> int:
    """Return what a node offers of a resource; 0 where it says nothing that can be read."""
    status = node_json.get("status") or {}
    for name in ("allocatable", "capacity"):
        amounts = status.get(name) or {}
        if resource in amounts:
            try:
                return max(0, parse_quantity(amounts[resource]))
            except ValueError:
                return 0
    return 0
