"""Texts of hostile tenants and nodes, or of a faulty program of theirs.

A number seeds every draw, so that the same number gives the same input, and another number gives
another text for the same trick: the extender's memory of the last text doesn't help.
"""

import json
import random
from collections.abc import Callable
from typing import Any

from gpustack.model.node import Card, Node
from gpustack.wire.nodes import encode_devices
from tests.control_plane import fleet
from tests.model.machines import TOKENS, symmetric

KEYS = fleet.KEYS
_LARGE = 200_000
_TOO_LARGE = 270_000


def _described(drawn: random.Random, cards: int, links: bool) -> str:
    pairs = {(a, b): drawn.choice(TOKENS) for b in range(cards) for a in range(b)}
    made = tuple(
        Card(
            minor=at,
            uuid=f"GPU-{drawn.getrandbits(64):016x}-{at}",
            model=f"Card {drawn.getrandbits(128):032x}",
            memory_bytes=drawn.randrange(1 << 50),
            numa=drawn.randrange(8),
            healthy=drawn.random() < 0.9,
            reason="r" * drawn.randrange(200),
        )
        for at in range(cards)
    )
    return encode_devices(Node(name="", cards=made, links=symmetric(cards, pairs) if links else ()))


def _annotated(text: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {KEYS.gpu_devices: text}}}


def _offering(core: str, memory: str) -> dict[str, Any]:
    amounts = {KEYS.vcuda_core: core, KEYS.vcuda_memory: memory}
    return {
        "metadata": {"annotations": {KEYS.gpu_devices: None}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _pad(drawn: random.Random, size: int) -> str:
    return f'"pad":"{drawn.getrandbits(64):x}{"x" * size}"'


def _rows(drawn: random.Random) -> str:
    rows = [["X"] * drawn.randrange(900, 1000)] * 50
    return json.dumps({"version": 1, "devices": [], "links": rows}, separators=(",", ":"))


_OF_NODES: tuple[Callable[[random.Random], dict[str, Any]], ...] = (
    lambda drawn: _offering(str(9 * 10**18 - drawn.randrange(100)), str(9 * 10**18)),
    lambda drawn: _offering(f"{drawn.randrange(1, 99)}e6", "9" * _LARGE),
    lambda drawn: _annotated(f"{{{_pad(drawn, _TOO_LARGE)}}}"),
    lambda drawn: _annotated("[" * drawn.randrange(_LARGE // 2, _LARGE)),
    lambda drawn: _annotated(_rows(drawn)),
    lambda drawn: _annotated(_described(drawn, 256, links=False)),
    lambda drawn: _annotated(_described(drawn, 64, links=True)),
    lambda drawn: _annotated(_described(drawn, 150, links=True)),
    lambda drawn: _annotated(
        f"{{{_pad(drawn, _LARGE)},{_described(drawn, 8, links=True).removeprefix('{')}"
    ),
    lambda drawn: _annotated(_described(drawn, 16, links=True)),
)
NODE_TRICKS = len(_OF_NODES)


def node_patch(trick: int, number: int) -> dict[str, Any]:
    """Return a hostile node's patch of itself; the tricks repeat after ``NODE_TRICKS``."""
    return _OF_NODES[trick % NODE_TRICKS](random.Random(number))  # noqa: S311


def node(name: str, trick: int, number: int = 0) -> dict[str, Any]:
    """Return a hostile node of the API."""
    value = fleet.gpu_node(Node(name=name))
    patch = node_patch(trick, number)
    value["metadata"]["annotations"] = {
        key: text for key, text in patch["metadata"]["annotations"].items() if text is not None
    }
    value["status"] |= patch.get("status", {})
    return value


def _word(drawn: random.Random) -> str:
    return f"{drawn.getrandbits(64):x}"


def _names(drawn: random.Random, sign: str, count: int) -> str:
    word = _word(drawn)
    return ",".join(f"{sign}{word}{at}" for at in range(count))


_OF_PODS: tuple[Callable[[random.Random], dict[str, str]], ...] = (
    lambda drawn: {KEYS.gpu_model: _names(drawn, "M", _LARGE // 20)},
    lambda drawn: {KEYS.gpu_model: _names(drawn, "!M", 64)},
    lambda drawn: {KEYS.gpu_placement: _word(drawn)},
    lambda drawn: {KEYS.gpu_topology: _word(drawn) * 10_000},
    lambda drawn: {KEYS.gpu_uuid: _names(drawn, "!GPU-", 64)},
    lambda drawn: {KEYS.gpu_model: ",", "note": _word(drawn) * 10_000},
    lambda drawn: {
        KEYS.predicate_time: _word(drawn),
        f"{KEYS.idx_prefix}0": ",".join(map(str, range(30_000))),
    },
    lambda drawn: {
        KEYS.gpu_topology: "nvlink",
        KEYS.gpu_placement: "spread",
        "note": _word(drawn),
    },
)
POD_TRICKS = len(_OF_PODS)


def pod_annotations(trick: int, number: int) -> dict[str, str]:
    """Return a tenant's annotations of a pod, bound or not; tricks repeat after ``POD_TRICKS``."""
    return _OF_PODS[trick % POD_TRICKS](random.Random(number))  # noqa: S311


_Amounts = list[tuple[str, str]]
_OF_LIMITS: tuple[Callable[[random.Random], _Amounts], ...] = (
    lambda _: [(str(9 * 10**18), "1")],
    lambda drawn: [(str(drawn.randrange(1, 99)), str(drawn.randrange(1, 300))) for _ in range(64)],
    lambda drawn: [(str(100 * drawn.randrange(1, 257)), "0")],
    lambda _: [("1", "1")] * 300,
    lambda _: [("9" * 5000, "1e30")],
    lambda drawn: [(str(drawn.randrange(1, 99)), str(10**18))],
)


def waiting_pod(name: str, trick: int, number: int = 0) -> dict[str, Any]:
    """Return a hostile pod that waits."""
    drawn = random.Random(number)  # noqa: S311
    value = fleet.waiting_pod(name)
    value["metadata"]["annotations"] = pod_annotations(trick, number)
    if trick % 2:
        asked = _OF_LIMITS[trick // 2 % len(_OF_LIMITS)](drawn)
        value["spec"]["containers"] = [
            {
                "name": f"c{at}",
                "resources": {"limits": {KEYS.vcuda_core: cores, KEYS.vcuda_memory: memory}},
            }
            for at, (cores, memory) in enumerate(asked)
        ]
    if trick % 3 == 0:
        value["metadata"]["labels"] = {f"l{number}-{at}": "x" * 60 for at in range(500)}
    return value
