"""The bodies of `bind`: one pod, one node."""

from dataclasses import dataclass
from typing import Final

import msgspec

from gpustack.wire.extender_v1.fields import PodName, check_name, read_name, read_object


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingArgs:
    """`ExtenderBindingArgs`: the scheduler has decided that this pod runs on this node."""

    pod: PodName
    node: str


class _Args(msgspec.Struct):
    """The body as Go writes it."""

    name: str = msgspec.field(default="", name="PodName")
    namespace: str = msgspec.field(default="", name="PodNamespace")
    uid: str = msgspec.field(default="", name="PodUID")
    node: str = msgspec.field(default="", name="Node")


_ARGS: Final = msgspec.json.Decoder(_Args)


def decode_binding_args(body: bytes) -> BindingArgs:
    """Read the body of `bind`.

    Raises:
        BadBody: not a JSON object, or one of its four fields is missing, empty or too long.
    """
    try:
        args = _ARGS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _in_any_case(body)
    if not (args.name and args.namespace and args.uid and args.node):
        return _in_any_case(body)
    check_name("PodName", args.name)
    check_name("PodNamespace", args.namespace)
    check_name("PodUID", args.uid)
    check_name("Node", args.node)
    return BindingArgs(
        pod=PodName(namespace=args.namespace, name=args.name, uid=args.uid), node=args.node
    )


def _in_any_case(body: bytes) -> BindingArgs:
    """Read a body that Go spells otherwise, or that has an error to name."""
    fields = read_object(body)
    name = read_name(fields, "PodName")
    namespace = read_name(fields, "PodNamespace")
    uid = read_name(fields, "PodUID")
    node = read_name(fields, "Node")
    return BindingArgs(pod=PodName(namespace=namespace, name=name, uid=uid), node=node)


def encode_binding_result(error: str = "") -> bytes:
    """Write `ExtenderBindingResult`: empty when the pod is bound."""
    return msgspec.json.encode({"Error": error})
