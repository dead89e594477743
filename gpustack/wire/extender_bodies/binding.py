"""The bodies of `bind`: one pod, one node."""

from dataclasses import dataclass

import msgspec

from gpustack.wire.extender_bodies.fields import PodName, read_name, read_object


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingArgs:
    """`ExtenderBindingArgs`: the scheduler has decided that this pod runs on this node."""

    pod: PodName
    node: str


def decode_binding_args(body: bytes) -> BindingArgs:
    """Read the body of `bind`.

    Raises:
        BadBody: not a JSON object, or one of its four fields is missing or empty.
    """
    fields = read_object(body)
    name = read_name(fields, "PodName")
    namespace = read_name(fields, "PodNamespace")
    uid = read_name(fields, "PodUID")
    node = read_name(fields, "Node")
    return BindingArgs(pod=PodName(namespace=namespace, name=name, uid=uid), node=node)


def encode_binding_result(error: str = "") -> bytes:
    """Write `ExtenderBindingResult`: empty when the pod is bound."""
    return msgspec.json.encode({"Error": error})
