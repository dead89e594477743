"""What a pod says about nodes, as far as explanations need it.

The scheduler hands us the nodes that suit a pod, so nothing is decided by this. It is read in
bounds: a tenant's node affinity may be a megabyte, which takes a third of a second to read, each
time that the pod changes, and minutes to compare with thousands of nodes. It is kept as JSON and
read where an explanation needs it: as objects it takes several times as much.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gpustack.model.cluster.eligibility import NO_DEMANDS, Demands
from gpustack.model.lru import remembered
from gpustack.model.request import BadRequest
from gpustack.wire.kube.eligibility import parse_demands

_FIELDS: Final = ("nodeSelector", "tolerations", "schedulingGates")
_LONGEST_BYTES: Final = 16 << 10  # as JSON; most pods have a few hundred bytes
_MOST_MEMBERS: Final = 512  # of a character each they would take twelve times their JSON
# What is read takes some three times the bytes that it is read from.
_READ_PARTS: Final = 4  # with the bytes themselves
_ENTRY_BYTES: Final = 512


def entry_bytes(text: bytes) -> int:
    """Return how much memory a text that was read takes, with what was read of it."""
    return _ENTRY_BYTES + _READ_PARTS * len(text)


@remembered(16 << 20, lambda text: _ENTRY_BYTES + len(text))
def shared_text(text: bytes) -> bytes:
    """Return the text; pods of one template share the first one's."""
    return text


def demands_text(spec: Mapping[str, Any]) -> bytes:
    """Return what a pod says about nodes, as JSON; empty where it says nothing, or too much.

    Beside what is too long the scheduling gates stand still.
    """
    said = {name: spec[name] for name in _FIELDS if spec.get(name)}
    if node_affinity := (spec.get("affinity") or {}).get("nodeAffinity"):
        said["affinity"] = {"nodeAffinity": node_affinity}
    for each in (said, {"schedulingGates": said.get("schedulingGates")}):
        text = msgspec.json.encode(each)
        if len(text) <= _LONGEST_BYTES and text.count(b",") < _MOST_MEMBERS:
            return shared_text(text) if said else b""
    return b""


def demands_of(text: bytes) -> Demands:
    """Read what `demands_text` gave; the scheduler judges what can't be read."""
    return _parsed(text) if text else NO_DEMANDS


@remembered(16 << 20, entry_bytes)
def _parsed(text: bytes) -> Demands:
    try:
        return parse_demands({"spec": msgspec.json.decode(text)})
    except BadRequest:
        return NO_DEMANDS
