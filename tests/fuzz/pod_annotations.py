"""A pod's annotations and limits: its user writes all of them.

An input is a list of parts with NUL between them. `c50/32` is a container with these limits (`i`
an init container, `s` a sidecar), `@node` binds the pod, and every other part is an annotation,
`KEY=VALUE`, with one letter for our own keys.
"""

import contextlib
from typing import Any, Final

from gpustack.model.request import BadRequest, PodRequest
from gpustack.wire import pods, user_keys
from gpustack.wire.annotations import (
    BadAnnotation,
    decided_ns,
    decode_decision,
    encode_decision,
    has_decision,
)
from tests.fuzz.harness import Target, check_message
from tests.model import machines
from tests.wire.api import KEYS

_LETTERS: Final = {
    "m": KEYS.gpu_model,
    "u": KEYS.gpu_uuid,
    "t": KEYS.gpu_topology,
    "p": KEYS.gpu_placement,
    "l": KEYS.core_limit,
    "d": KEYS.driver_path,
    "T": KEYS.predicate_time,
    "n": KEYS.predicate_node,
    "a": KEYS.gpu_assigned,
    "r": KEYS.gpu_retry,
}
_PREFIXES: Final = {"x": KEYS.idx_prefix, "y": KEYS.uuid_prefix}
_LONGEST_NAME: Final = 63  # of an annotation, behind its domain (the API server's bound)
_NODE: Final = machines.node(4)


def pod_of(data: bytes) -> dict[str, Any]:
    """Return the pod that an input describes."""
    annotations: dict[str, str] = {}
    spec: dict[str, Any] = {"containers": [], "initContainers": []}
    for part in data.decode("utf-8", "replace").split("\0"):
        letter, rest = part[:1], part[1:]
        key, equals, value = rest.partition("=")
        if letter in {"c", "i", "s"} and "/" in rest:
            _add(spec, letter, rest)
        elif letter == "@":
            spec["nodeName"] = rest
        elif letter in _PREFIXES and equals:
            annotations[(_PREFIXES[letter] + key)[: len(KEYS.domain) + 1 + _LONGEST_NAME]] = value
        elif letter in _LETTERS:
            annotations[_LETTERS[letter]] = value
    return {"metadata": {"name": "p", "annotations": annotations}, "spec": spec}


def _add(spec: dict[str, Any], letter: str, limits: str) -> None:
    cores, _, memory = limits.partition("/")
    amounts = {KEYS.vcuda_core: cores, KEYS.vcuda_memory: memory}
    one = {"name": "c", "resources": {"limits": {k: v for k, v in amounts.items() if v}}}
    if letter == "s":
        one["restartPolicy"] = "Always"
    spec["containers" if letter == "c" else "initContainers"].append(one)


def check(data: bytes) -> None:
    pod = pod_of(data)
    asked = _asked(pod)
    assert asked == _asked(pods.asking(KEYS, pod) if asked is not None else pod)
    for read in (user_keys.core_limit, user_keys.library_path):
        with contextlib.suppress(BadRequest):
            read(KEYS, pod)
    assert decided_ns(KEYS, pod) >= 0
    held = pods.holding(KEYS, pod)
    decided = _decided(pod)
    if held is not None:
        assert has_decision(KEYS, pod)
        assert decided is None or held.decision == decided


def _asked(pod: dict[str, Any]) -> PodRequest | None:
    """Return what the pod asks; None for a pod without GPU, or a bad one."""
    try:
        request = pods.parse_request(KEYS, pod)
    except BadRequest as error:
        check_message(error.message)
        return None
    if request is not None:
        assert 0 < len(request.containers) <= pods.MOST_CONTAINERS
        for names in (request.models, request.uuids):
            assert len(names.include) + len(names.exclude) <= user_keys.MOST_NAMES
    return request


def _decided(pod: dict[str, Any]) -> object:
    """Return the decision on the pod, None where it has none; it is written as it was read."""
    try:
        limits = pods.parse_limits(KEYS, pod)
        decision = None if limits is None else decode_decision(KEYS, pod, limits)
    except (BadRequest, BadAnnotation) as error:
        check_message(error.message)
        return None
    if limits is None or decision is None:
        return None
    with contextlib.suppress(BadAnnotation):
        assert decode_decision(KEYS, pod, limits, _NODE) == decision
    written = encode_decision(
        KEYS, decision.placement, decision.time_ns, assigned=decision.assigned
    )
    again = decode_decision(KEYS, {**pod, "metadata": {"annotations": written}}, limits)
    assert again is not None
    assert (again.node, again.time_ns, again.assigned) == (
        decision.node,
        decision.time_ns,
        decision.assigned,
    )
    assert [each.minors for each in again.placement.containers] == [
        each.minors for each in decision.placement.containers
    ]
    return decision


TARGET: Final = Target(
    check=check,
    seeds=[
        b"c50/32\0mA100,!P40\0tnvlink\0pnode=spread,card=binpack\0l60\0denv\0uGPU-1,!GPU-2",
        b"c200/\0i50/8\0s10/1\0T1700000000000000000\0nn\0afalse\0x0=0,1\0yinit-1=GPU-3\0xinit-1=3",
        b"c50/32\0@n\0T1\0nn\0atrue\0x0=3\0y0=GPU-00000003",
        b"c400/\0@n\0atrue\0x0=0,1,2,3\0r1700000000000000000",
    ],
    words=[
        "\x00c",
        "\x00i100/",
        "\x00x0=",
        "\x00y0=",
        "init-",
        "GPU-",
        "single-switch",
        "best-effort",
        "single-numa",
        "spread",
        "binpack",
        "node=",
        "card=",
        "none",
        "true",
        "1e3",
        "1Ki",
        "0,1",
    ],
    limit_bytes=256 << 10,  # of all annotations of an object
)
