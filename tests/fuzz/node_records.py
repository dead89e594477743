"""A node's record of its cards: the node writes it, and a lying node must harm only itself.

An input is the annotation's text, or behind `=` what a node without one says that it offers.
"""

import dataclasses
import json
from typing import Any, Final

from gpustack.model.node import Card
from gpustack.model.units import MOST_CARDS
from gpustack.wire.annotations import BadAnnotation
from gpustack.wire.nodes import MOST_TEXT_BYTES, decode_node, encode_devices
from tests.fuzz.harness import Target, check_message
from tests.model import machines
from tests.wire.api import KEYS

_LONGEST_TEXT: Final = 256  # the reason of an unhealthy card; NVML's texts have 96


def _text(data: bytes) -> str:
    """Return an input as JSON may bring it, half a surrogate pair included."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def api_node(data: bytes) -> dict[str, Any]:
    if not data.startswith(b"="):
        return {"metadata": {"annotations": {KEYS.gpu_devices: _text(data)}}}
    cores, _, memory = _text(data[1:]).partition("\0")
    return {"status": {"allocatable": {KEYS.vcuda_core: cores, KEYS.vcuda_memory: memory}}}


def check(data: bytes) -> None:
    try:
        node = decode_node(KEYS, api_node(data))
    except BadAnnotation as error:
        check_message(error.message)
        return
    assert len(node.cards) <= MOST_CARDS
    for card in node.cards:
        for field in dataclasses.fields(Card):
            value = getattr(card, field.name)
            assert not isinstance(value, str) or len(value) <= _LONGEST_TEXT, field.name
    if data.startswith(b"="):
        return
    assert len(data) <= MOST_TEXT_BYTES
    # Paths that say no more than the links do aren't written.
    said = dataclasses.replace(node, paths=node.paths if node.paths != node.links else ())
    assert decode_node(KEYS, api_node(encode_devices(node).encode())) == said


def _seeds() -> list[bytes]:
    text = encode_devices(machines.node(2))
    body = json.loads(text)
    body["links"], body["paths"] = [["X", "NV2"], ["NV2", "X"]], [["X", "PIX"], ["PIX", "X"]]
    return [text.encode(), json.dumps(body).encode(), b"=200\x0064", b"=1k\x00256Gi"]


TARGET: Final = Target(
    check=check,
    seeds=_seeds(),
    words=[
        '"minor":',
        '"uuid":',
        '"model":',
        '"memory":',
        '"sms":',
        '"numa":',
        '"bus":',
        '"healthy":',
        '"since":',
        '"reason":',
        '"links":',
        '"paths":',
        '"version":1',
        '"devices":[',
        "null",
        "true",
        "NODE",
        "SYS",
        "PHB",
        "1e400",
        "-1",
        "NaN",
        "\\ud800",
        "9007199254740993",
    ],
    limit_bytes=MOST_TEXT_BYTES,
)
