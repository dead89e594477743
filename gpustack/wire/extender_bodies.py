"""What kube-scheduler sends to an extender and reads from it (`k8s.io/kube-scheduler/extender/v1`).

Its Go types carry no JSON tags: names are written exactly as they are spelt there and read in any
case, as Go does. A scheduler sends nodes in full or, told that the extender knows them, by name;
the answer has the form of the question. The pod of the body is only a name: an old scheduler drops
fields that it doesn't know. Nodes are never looked into beyond their names and go back as the
bytes they came in: a list of a thousand nodes is some 13 MB.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from gpustack.model.errors import GpustackError

_Decoded = TypeVar("_Decoded")


class BadBody(GpustackError):
    """A body that isn't what the scheduler sends: the caller's fault (HTTP 400).

    Attributes:
        field: path of the missing or wrong field; empty when the body isn't a JSON object.
    """

    def __init__(self, field: str, problem: str) -> None:
        self.field: Final = field
        super().__init__(f"{field or 'body'}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodName:
    """Which pod the scheduler means."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterArgs:
    """`ExtenderArgs`: one pod, and the nodes that the scheduler still considers for it.

    Attributes:
        pod: the pod.
        names: the nodes' names, in the order given.
        items: the nodes themselves, in the same order; None when only names were given.
        nodes: the whole `Nodes` value as it came; None as above.
    """

    pod: PodName
    names: tuple[str, ...]
    items: tuple[msgspec.Raw, ...] | None
    nodes: msgspec.Raw | None


class _NodeMetadata(msgspec.Struct):
    name: str


class _Node(msgspec.Struct):
    metadata: _NodeMetadata


class _NodeList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _PodMetadata(msgspec.Struct):
    name: str
    uid: str
    namespace: str = ""


class _Pod(msgspec.Struct):
    metadata: _PodMetadata


_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_POD: Final = msgspec.json.Decoder(_Pod)
_NODE: Final = msgspec.json.Decoder(_Node)
_NODE_LIST: Final = msgspec.json.Decoder(_NodeList)
_NAMES: Final = msgspec.json.Decoder(tuple[str, ...])
_NULL: Final = b"null"


def decode_filter_args(body: bytes) -> FilterArgs:
    """Read the body of `filter`, `predicates` and `prioritize`.

    Raises:
        BadBody: not a JSON object; `Pod`, its name or its UID is missing; so are both `Nodes` and
            `NodeNames`.
    """
    fields = _fields(body)
    metadata = _decode("Pod", fields.get("pod"), _POD).metadata
    for field, value in (("name", metadata.name), ("uid", metadata.uid)):
        if not value:
            raise BadBody(f"Pod.metadata.{field}", "is empty")
    pod = PodName(namespace=metadata.namespace or "default", name=metadata.name, uid=metadata.uid)
    if "nodenames" in fields:
        names = _decode("NodeNames", fields["nodenames"], _NAMES)
        return FilterArgs(pod=pod, names=names, items=None, nodes=None)
    if "nodes" not in fields:
        raise BadBody("Nodes", "is missing, and so is NodeNames; one of them is needed")
    items = _decode("Nodes", fields["nodes"], _NODE_LIST).items or []
    names = tuple(
        _decode(f"Nodes.items[{index}]", item, _NODE).metadata.name
        for index, item in enumerate(items)
    )
    return FilterArgs(pod=pod, names=names, items=tuple(items), nodes=fields["nodes"])


def _fields(body: bytes) -> dict[str, msgspec.Raw]:
    """Return the body's fields by lower-case name; null is as good as missing."""
    try:
        values = _FIELDS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody("", f"is not a JSON object: {error}") from error
    return {name.lower(): raw for name, raw in values.items() if bytes(raw) != _NULL}


def _decode(
    field: str, raw: msgspec.Raw | None, decoder: "msgspec.json.Decoder[_Decoded]"
) -> _Decoded:
    if raw is None:
        raise BadBody(field, "is missing")
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # msgspec ends with " - at `$.metadata`" unless the value itself is wrong.
        problem, _, place = str(error).partition(" - at `$")
        raise BadBody(field + place.rstrip("`"), problem) from error


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
        chosen: names of the nodes that remain.
        failed: node name to reason, of nodes that preemption might help.
        unresolvable: node name to reason, of nodes that it can't; schedulers since 1.21 know it,
            and it wins over ``failed``.
    """
    kept = frozenset(chosen)
    if args.items is None:
        names = [name for name in args.names if name in kept]
        return _result(None, names, failed, unresolvable, "")
    pairs = zip(args.names, args.items, strict=True)
    nodes = {"metadata": {}, "items": [item for name, item in pairs if name in kept]}
    return _result(nodes, None, failed, unresolvable, "")


def encode_filter_echo(args: FilterArgs) -> bytes:
    """Write the answer about a pod that is none of our business: every node, untouched."""
    return _result(args.nodes, None if args.nodes is not None else args.names, {}, {}, "")


def encode_filter_error(message: str) -> bytes:
    """Write a failure of the whole scheduling cycle; the scheduler shows the text."""
    return _result(None, None, None, None, message)


def _result(
    nodes: object,
    names: Iterable[str] | None,
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
