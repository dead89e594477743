"""The bodies of `filter`, `predicates` and `prioritize`: one pod, and nodes in either form.

A scheduler sends nodes in full or, told that the extender knows them, by name; the answer has the
form of the question. Of a node only the name is read, and it goes back as the bytes that it came
in: a list of a thousand nodes is some 13 MB.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gpustack.wire.extender_v1.fields import (
    RAWS,
    TEXT,
    BadBody,
    PodName,
    read,
    read_metadata,
    read_object,
    read_pod,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterArgs:
    """`ExtenderArgs`: one pod, and the nodes that the scheduler still considers for it.

    Attributes:
        pod: the pod.
        names: the nodes' names, in the order given.
        items: the nodes themselves, in the same order; None when only names were given.
        listed: the names as they came, a JSON array; empty when the nodes were given.
        body: what all of it was read from.
    """

    pod: PodName
    names: tuple[str, ...]
    items: tuple[msgspec.Raw, ...] | None
    listed: bytes = b""
    body: bytes


MOST_NODES: Final = 1 << 16
"""Of one call; Kubernetes is made for 5000 in a cluster."""

_MISSING: Final = msgspec.Raw(b"null")
# How Go begins a node: `metadata` is its first field, and `name` the first of that.
_BEGINNING: Final = re.compile(rb'\{"metadata":\{"name":"(?P<name>[a-z0-9.-]*)"')


class _NodeMetadata(msgspec.Struct):
    name: str


class _Node(msgspec.Struct):
    metadata: _NodeMetadata


class _NodeList(msgspec.Struct):
    items: list[msgspec.Raw]


class _Args(msgspec.Struct, rename="pascal"):
    """The body as Go writes it."""

    pod: msgspec.Raw = _MISSING
    nodes: _NodeList | None = None
    node_names: msgspec.Raw = _MISSING


_ARGS: Final = msgspec.json.Decoder(_Args)
_NODE: Final = msgspec.json.Decoder(_Node)
_POD: Final = msgspec.json.Decoder(dict[str, Any])
_NAMES: Final = msgspec.json.Decoder(tuple[str, ...])


def decode_filter_args(body: bytes) -> FilterArgs:
    """Read the body of `filter`, `predicates` and `prioritize`.

    Raises:
        BadBody: not a JSON object; `Pod`, its name or its UID is missing; so are both `Nodes` and
            `NodeNames`.
    """
    try:
        args = _ARGS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _in_any_case(body)
    named = args.node_names != _MISSING
    if args.pod == _MISSING or not (named or args.nodes):
        return _in_any_case(body)
    pod = read_pod({"pod": args.pod})
    if named:
        return _named(pod, args.node_names, body)
    return _full(pod, args.nodes.items if args.nodes else [], body)


def pod_of(pod: PodName) -> Mapping[str, Any]:
    """Return the pod of a body as plain values, for a caller without a cluster.

    Raises:
        BadBody: a value that JSON has and Python hasn't.
    """
    return read("Pod", pod.value, _POD)


def _in_any_case(body: bytes) -> FilterArgs:
    """Read a body that Go spells otherwise, or that has an error to name."""
    fields = read_object(body)
    pod = read_pod(fields)
    if "nodenames" in fields:
        return _named(pod, fields["nodenames"], body)
    if "nodes" not in fields:
        raise BadBody("Nodes", "is missing, and so is NodeNames; one of them is needed")
    items = read_object(fields["nodes"], "Nodes").get("items")
    return _full(pod, read("Nodes.items", items, RAWS) if items else [], body)


def _named(pod: PodName, raw: msgspec.Raw, body: bytes) -> FilterArgs:
    listed = bytes(raw)
    _check_count("NodeNames", listed.count(b",") + 1)  # of short names, 16 MB take 350 MB
    return FilterArgs(pod=pod, names=_names(listed), items=None, listed=listed, body=body)


@functools.lru_cache(maxsize=2)  # prioritize sends the very list that filter has answered with
def _names(listed: bytes) -> tuple[str, ...]:
    return read("NodeNames", listed, _NAMES)


def _full(pod: PodName, items: list[msgspec.Raw], body: bytes) -> FilterArgs:
    _check_count("Nodes.items", len(items))
    names = tuple(_name(index, item) for index, item in enumerate(items))
    return FilterArgs(pod=pod, names=names, items=tuple(items), body=body)


def _check_count(field: str, count: int) -> None:
    if count > MOST_NODES:
        raise BadBody(field, f"has {count} nodes; a call names {MOST_NODES} at most")


def _name(index: int, item: msgspec.Raw) -> str:
    """Return a node's name; one that Go wrote needs no second look at its 13 kB."""
    view = memoryview(item)
    found = _BEGINNING.match(view)
    if found is not None:
        return str(found["name"], "ascii")
    try:
        return _NODE.decode(item).metadata.name
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        field = f"Nodes.items[{index}]"
        return read(f"{field}.metadata.name", read_metadata(item, field).get("name"), TEXT)


def encode_filter_result(
    args: FilterArgs,
    *,
    chosen: Iterable[str],
    failed: Mapping[str, str],
    unresolvable: Mapping[str, str],
) -> bytes:
    """Write `ExtenderFilterResult` in the form that was asked.

    Args:
        args: the request.
        chosen: names of the nodes that remain, of those in the request.
        failed: node name to reason, of nodes that preemption might help.
        unresolvable: node name to reason, of nodes that it can't; schedulers since 1.21 know it,
            and it wins over ``failed``.
    """
    if args.items is None:
        return _result(None, list(chosen), failed, unresolvable, "")
    kept = frozenset(chosen)
    pairs = zip(args.names, args.items, strict=True)
    nodes = {"metadata": {}, "items": [item for name, item in pairs if name in kept]}
    return _result(nodes, None, failed, unresolvable, "")


def encode_filter_echo(args: FilterArgs) -> bytes:
    """Write the answer that refuses no node: all of them, as they came."""
    if args.items is None:
        return _result(None, msgspec.Raw(args.listed), {}, {}, "")
    return _result(read_object(args.body)["nodes"], None, {}, {}, "")


def encode_filter_error(message: str) -> bytes:
    """Write a failure of the whole scheduling cycle; the scheduler shows the text."""
    return _result(None, None, None, None, message)


def _result(
    nodes: object,
    names: object,
    failed: Mapping[str, str] | None,
    unresolvable: Mapping[str, str] | None,
    error: str,
) -> bytes:
    return msgspec.json.encode(
        {
            "Nodes": nodes,
            "NodeNames": names,
            "FailedNodes": failed,
            "FailedAndUnresolvableNodes": unresolvable,
            "Error": error,
        }
    )
