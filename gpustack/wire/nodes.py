"""A node's cards, links and health as the node's annotation carries them, and back.

The original's tree is made of PCIe paths, and `links` lacks the path of a pair that NVLink joins.
So a node that knows the paths and has such a pair publishes them, too, as `paths`; a
reader that doesn't know this key passes it over.

Nodes that the original gpu-manager still runs carry no annotation: they count as equal cards
without links, as many as their `vcuda-core` holds hundreds.

A node writes all of this itself, and a lying node must harm only itself: too large a text is
refused before it is parsed, and every text in it is as long as the driver can make it at most.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

import msgspec

from gpustack.model.lru import LRUCache
from gpustack.model.node import Card, Node, arrange
from gpustack.model.topology.link_level import BadLinks, Links
from gpustack.model.units import MOST_CARDS
from gpustack.model.use import IDLE, Use
from gpustack.wire import schemas
from gpustack.wire.annotations import BadAnnotation, annotations_of
from gpustack.wire.keys import Keys
from gpustack.wire.original_nodes import MOST_CARD_BYTES, equal_cards
from gpustack.wire.topo.link_matrix import read_matrix

VERSION: Final = 1
MODEL_LABEL: Final = "gaia.tencent.com/gpu-model"
POOL_LABEL: Final = "gaia.tencent.com/gpu-pool"

MOST_TEXT_BYTES: Final = 256 << 10
"""The API server's own bound for all annotations of an object together
(TotalAnnotationSizeLimitB of apimachinery); what a file says is held to it too."""

# Up to here a problem is looked for place by place, which takes 10 us a value; 16 cards take 6 KB.
_EXPLAINED_BYTES: Final = 16 << 10
_MOST_PROBLEMS: Final = 20
_SHOWN: Final = 80  # characters of a value that a message shows
_MOST_REASON: Final = 256  # characters; ours are one word

# NVML's buffers (nvml.h): NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_DEVICE_NAME_V2_BUFFER_SIZE are
# 96 bytes, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE 80, NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE 32. A
# moment of RFC 3339 with nanoseconds has 35. Linux has at most 1024 NUMA nodes (NODES_SHIFT 10).
_Name = Annotated[str, msgspec.Meta(max_length=96)]
_Version = Annotated[str, msgspec.Meta(max_length=80)]
_Bus = Annotated[str, msgspec.Meta(max_length=32)]
_Moment = Annotated[str, msgspec.Meta(max_length=64)]
_Reason = Annotated[str, msgspec.Meta(max_length=_MOST_REASON)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLabels:
    """The labels that name a node's pool, and its cards' model where no agent publishes the cards.

    The original's configuration chose them by `GPUModelLabel` and `GPUPoolLabel`.
    """

    model: str = MODEL_LABEL
    pool: str = POOL_LABEL


LABELS: Final = NodeLabels()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSoftware:
    """What runs on a node, as its agent's record says it; a text is empty where that doesn't.

    Attributes:
        agent: the agent's version.
        hook: the hook's build, which new shares get.
    """

    agent: str = ""
    hook: str = ""


UNSAID: Final = NodeSoftware()


_Token = Annotated[str, msgspec.Meta(pattern=r"\A(X|NV[1-9][0-9]?|PIX|PXB|PHB|NODE|SYS)\Z")]
_Path = Annotated[str, msgspec.Meta(pattern=r"\A(X|PIX|PXB|PHB|NODE|SYS)\Z")]


class _Device(TypedDict):
    minor: Annotated[int, msgspec.Meta(ge=0, le=1_048_575)]
    uuid: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9._/-]+\Z", max_length=96)]
    model: _Name
    memory: Annotated[int, msgspec.Meta(ge=0, le=MOST_CARD_BYTES)]
    sms: NotRequired[Annotated[int, msgspec.Meta(ge=0, le=65_535)]]
    numa: NotRequired[Annotated[int, msgspec.Meta(ge=0, le=1023)] | None]
    bus: NotRequired[_Bus]
    healthy: bool
    since: NotRequired[_Moment]
    reason: NotRequired[_Reason]
    held_cores: NotRequired[Annotated[int, msgspec.Meta(ge=0, le=1_048_575)]]
    held_memory: NotRequired[Annotated[int, msgspec.Meta(ge=0, le=1_073_741_823)]]


class _Devices(TypedDict):
    """A subset of the schema `gpu-devices`, quick enough for a list of 5000 nodes."""

    version: Literal[1]
    driver: NotRequired[_Version]
    cuda: NotRequired[_Version]
    agent: NotRequired[_Version]
    hook: NotRequired[_Version]
    devices: Annotated[list[_Device], msgspec.Meta(max_length=MOST_CARDS)]
    links: list[list[_Token]]
    paths: NotRequired[list[list[_Path]]]


_PLAIN: Final = msgspec.json.Decoder(_Devices)


def encode_devices(node: Node, software: NodeSoftware = UNSAID) -> str:
    """Return the value of the annotation `gpu-devices`: one line of JSON, keys in fixed order.

    Without blanks: schedulers that send whole nodes send it a thousand times for every pod. What is
    taken of the node's cards stands there as held by pods that are over.
    """
    body = {
        "version": VERSION,
        "driver": node.driver,
        "cuda": node.cuda,
        "devices": [
            _device(card) | _held(use) for card, use in zip(node.cards, node.uses, strict=True)
        ],
        "links": [list(row) for row in node.links],
    }
    body |= {name: text for name, text in asdict(software).items() if text}
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
        "reason": card.reason[:_MOST_REASON],
    }


def _held(use: Use) -> dict[str, int]:
    return {} if use.idle else {"held_cores": use.cores, "held_memory": use.memory_units}


def decode_node(keys: Keys, node_json: Mapping[str, Any], labels: NodeLabels = LABELS) -> Node:
    """Read a node of the API; of its cards is taken what pods hold that are over.

    Raises:
        BadAnnotation: the annotation is too large, isn't JSON, has an unknown version, or describes
            no machine; or a node without one offers more than a node can have. Names the place.
    """
    metadata = node_json.get("metadata") or {}
    name = metadata.get("name", "")
    written = metadata.get("labels") or {}
    pool = written.get(labels.pool, "")
    text = annotations_of(node_json).get(keys.gpu_devices)
    if text is None:
        model = written.get(labels.model, "")
        return Node(name=name, cards=equal_cards(keys, node_json, model), pool=pool)
    return replace(_decode(keys.gpu_devices, text), name=name, pool=pool)


def decode_software(keys: Keys, node_json: Mapping[str, Any]) -> NodeSoftware:
    """Read which agent and hook a node of the API has; nothing where no agent describes it.

    Raises:
        BadAnnotation: as `decode_node`.
    """
    text = annotations_of(node_json).get(keys.gpu_devices)
    if text is None:
        return NodeSoftware()
    body = _body(keys.gpu_devices, text, _bounded(keys.gpu_devices, text))
    return NodeSoftware(agent=body.get("agent", ""), hook=body.get("hook", ""))


# Every heartbeat of a node brings the same text again. 5000 nodes of 8 cards take some 60 MB.
_DECODED: Final[LRUCache[tuple[str, bytes], Node]] = LRUCache(96 << 20)


def _decode(key: str, text: str) -> Node:
    """Return the node that a text describes, without its name."""
    raw = _bounded(key, text)
    # By a digest: kept as it is, a text would take as much again as what it says.
    digest = hashlib.blake2b(raw, digest_size=32).digest()
    # Objects of Python take some three times the bytes of the text that they are read from.
    return _DECODED.get_or_make(
        (key, digest), lambda: _read(key, text, raw), lambda _: 1024 + 3 * len(raw)
    )


def _bounded(key: str, text: str) -> bytes:
    """Return a text's bytes, unless it is too large."""
    raw = b"" if len(text) > MOST_TEXT_BYTES else text.encode("utf-8", "surrogatepass")
    if max(len(raw), len(text)) > MOST_TEXT_BYTES:
        size = max(len(raw), len(text))
        raise BadAnnotation(
            key, f"has {size} bytes; a node's cards are described in {MOST_TEXT_BYTES} at most"
        )
    return raw


def _read(key: str, text: str, raw: bytes) -> Node:
    body = _body(key, text, raw)
    cards = tuple(_card(device) for device in body["devices"])
    _check_distinct(key, cards)
    arranged, links = arrange(cards, _matrix(key, body, "links"))
    _, paths = arrange(cards, _matrix(key, body, "paths"))
    held = {int(each["minor"]): _use(each) for each in body["devices"]}
    return Node(
        name="",
        cards=arranged,
        links=links,
        paths=paths,
        uses=tuple(held[card.minor] for card in arranged),
        driver=body.get("driver", ""),
        cuda=body.get("cuda", ""),
    )


def _body(key: str, text: str, raw: bytes) -> Mapping[str, Any]:
    """Read the JSON and check it against its schema."""
    try:
        return _PLAIN.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if len(raw) > _EXPLAINED_BYTES:
            raise BadAnnotation(key, f"describes no machine: {error}") from None
    # The schema judges, and names, a text that the quick reader doesn't take.
    try:
        body = json.loads(text)
        json.dumps(body, ensure_ascii=False).encode()  # half a surrogate pair has no UTF-8
        problems = schemas.problems(schemas.load("gpu-devices"), body, _MOST_PROBLEMS)
    except ValueError as error:
        raise BadAnnotation(key, f"is not JSON: {error}") from None
    except RecursionError:  # of the parser, or of the schema after it
        raise BadAnnotation(key, "is nested too deeply") from None
    if isinstance(body, dict) and body.get("version", VERSION) != VERSION:
        version = repr(body["version"])[:_SHOWN]
        raise BadAnnotation(key, f"version {version} is not known; this reader knows {VERSION}")
    if problems:
        raise BadAnnotation(key, problems[0])
    found: Mapping[str, Any] = body
    return found


def _matrix(key: str, body: Mapping[str, Any], name: str) -> Links:
    try:
        return read_matrix(body.get(name, ()), len(body["devices"]), name)
    except BadLinks as error:
        raise BadAnnotation(key, str(error)) from None


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


def _use(device: Mapping[str, Any]) -> Use:
    cores, memory_units = device.get("held_cores", 0), device.get("held_memory", 0)
    return Use(cores=int(cores), memory_units=int(memory_units)) if cores or memory_units else IDLE


def _check_distinct(key: str, cards: tuple[Card, ...]) -> None:
    for name in ("minor", "uuid"):
        seen = set()
        for position, card in enumerate(cards):
            value = getattr(card, name)
            if value in seen:
                raise BadAnnotation(key, f"devices[{position}].{name}: {value!r} stands twice")
            seen.add(value)
