"""The bodies of `preempt`: which pods the scheduler would end on which node to make room.

A scheduler with `nodeCacheCapable` sends the victims' UIDs, any other one the pods in
full; the answer is UIDs either way. Of a full pod only the UID is read: its cards are known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec

from gpustack.wire.extender_v1.fields import (
    OBJECT,
    RAWS,
    BadBody,
    PodName,
    read,
    read_name,
    read_object,
    read_pod,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVictims:
    """Pods of one node that would have to end.

    Attributes:
        uids: the pods, the most important first: the scheduler compares nodes by the first one.
        pdb_violations: how many of them their PodDisruptionBudget doesn't allow to end.
    """

    uids: tuple[str, ...]
    pdb_violations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionArgs:
    """`ExtenderPreemptionArgs`: the pod that needs room, and the victims that free it, by node."""

    pod: PodName
    victims: Mapping[str, NodeVictims]


# Schedulers up to 1.17 have the third name in their types.
_FORMS: Final = ("NodeNameToMetaVictims", "NodeNameToVictims", "NodeToVictims")
_COUNT: Final = msgspec.json.Decoder(int)


def decode_preemption_args(body: bytes) -> PreemptionArgs:
    """Read the body of `preempt`.

    Raises:
        BadBody: not a JSON object; `Pod` or both forms of victims are missing; a victim without
            a UID. Names the place.
    """
    fields = read_object(body)
    pod = read_pod(fields)
    form = next((each for each in _FORMS if each.lower() in fields), None)
    if form is None:
        raise BadBody(
            "NodeNameToMetaVictims", "is missing, and so is NodeNameToVictims; one is needed"
        )
    by_node = read(form, fields[form.lower()], OBJECT)
    victims = {name: _victims(f"{form}[{name}]", raw) for name, raw in by_node.items()}
    return PreemptionArgs(pod=pod, victims=MappingProxyType(victims))


def _victims(field: str, raw: msgspec.Raw) -> NodeVictims:
    fields = read_object(raw, field)
    pods: list[msgspec.Raw] = []
    if "pods" in fields:
        pods = read(f"{field}.Pods", fields["pods"], RAWS)
    count = fields.get("numpdbviolations")
    return NodeVictims(
        uids=tuple(_uid(f"{field}.Pods[{index}]", each) for index, each in enumerate(pods)),
        pdb_violations=0 if count is None else read(f"{field}.NumPDBViolations", count, _COUNT),
    )


def _uid(field: str, raw: msgspec.Raw) -> str:
    """Return a victim's UID: of a MetaPod, or of a pod in full."""
    fields = read_object(raw, field)
    if "uid" in fields or "metadata" not in fields:
        return read_name(fields, f"{field}.UID")
    return read_name(read_object(fields["metadata"], f"{field}.metadata"), f"{field}.metadata.uid")


def encode_preemption_result(victims: Mapping[str, NodeVictims]) -> bytes:
    """Write `ExtenderPreemptionResult`; a node that isn't named doesn't help."""
    return msgspec.json.encode(
        {
            "NodeNameToMetaVictims": {
                name: {
                    "Pods": [{"UID": uid} for uid in each.uids],
                    "NumPDBViolations": each.pdb_violations,
                }
                for name, each in victims.items()
            }
        }
    )
