"""The CDI spec: the device nodes behind each name that Allocate answers with. Pure.

A container gets the names of its cards, and one of `share` and `whole-cards`: the nodes besides
cards differ between the two. Limits, mounts, environment and annotations are of one container, and
a spec is of the host: they stay in the answer.

Source of truth: the specification in https://github.com/cncf-tags/container-device-interface
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpustack.agent.node.device_nodes import HostNode
from gpustack.model.placement import ContainerPlacement

# The oldest with `hostPath`. A runtime refuses versions that it doesn't know, and containerd 1.7.2,
# the oldest that we take, knows this one (its go.mod has the CDI library v0.5.4).
_VERSION: Final = "0.5.0"
# As the resource: NVIDIA's tools write specs of the class gpu, and a name may stand in one only.
_CLASS: Final = "vcuda"
_SHARE, _WHOLE_CARDS = "share", "whole-cards"


def encode(
    domain: str,
    cards: Mapping[str, Iterable[HostNode]],
    *,
    share: Iterable[HostNode],
    whole_cards: Iterable[HostNode],
) -> bytes:
    """Return the spec, JSON: equal for equal arguments.

    Args:
        domain: the vendor.
        cards: the nodes of each card, by its UUID.
        share: the nodes that a share gets besides its card.
        whole_cards: those that whole cards get.
    """
    devices = {**cards, _SHARE: share, _WHOLE_CARDS: whole_cards}
    spec = {
        "cdiVersion": _VERSION,
        "kind": f"{domain}/{_CLASS}",
        "devices": [
            {"name": name, "containerEdits": {"deviceNodes": [_node(each) for each in nodes]}}
            for name, nodes in devices.items()
        ],
    }
    return json.dumps(spec, indent=2).encode() + b"\n"


def names(domain: str, placement: ContainerPlacement) -> tuple[str, ...]:
    """Return the names that stand for a container's device nodes."""
    besides = _SHARE if placement.is_share else _WHOLE_CARDS
    return tuple(f"{domain}/{_CLASS}={name}" for name in (*placement.uuids, besides))


def is_ours(domain: str, name: str) -> bool:
    """Say whether a device's name is one of a spec of ours."""
    return name.startswith(f"{domain}/{_CLASS}=")


def _node(node: HostNode) -> dict[str, Any]:
    """Return a node without its numbers: a driver that is loaded anew may have others.

    Mode and owner are those of the host, as where the kubelet names the node: left out, the runtime
    would make it 0666, and the container's user its owner.
    """
    owner = {"fileMode": node.mode, "uid": node.uid, "gid": node.gid}
    return {
        "path": node.path,
        **({} if node.target is None else {"hostPath": node.target}),
        "permissions": "rw",
        **{name: value for name, value in owner.items() if value is not None},
    }
