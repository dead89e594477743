"""What six views say of each container that holds a card, compared: pure.

Records, the kubelet's devices, running containers, the pods' annotations, and for shares the limits
and the ledger.
"""

import dataclasses
import enum
from collections.abc import Iterator, Mapping

from gpustack.adapters.cri import RuntimeContainer
from gpustack.adapters.podresources import PodDevices
from gpustack.agent.cluster.pods import Pod
from gpustack.agent.containers.allocate_response import cards
from gpustack.agent.containers.allocation_records import PodRecord
from gpustack.model.node import Node
from gpustack.model.placement import minors_now
from gpustack.model.request import ContainerKind
from gpustack.wire.annotations import annotations_of, encode_decision
from gpustack.wire.keys import Keys
from gpustack.wire.pods import is_static


class DifferenceReason(enum.StrEnum):
    """Which views differ."""

    NO_RECORD = "no-record"  # a container runs with cards, and has no record
    OTHER_POD = "other-pod"  # a container runs with the answer for another pod
    OTHER_CARDS = "other-cards"  # a container runs with other cards than its record has
    RENUMBERED = "renumbered"  # a running container's cards have other minors now
    OTHER_DEVICES = "other-devices"  # the kubelet holds other devices for a running container
    ANNOTATIONS = "annotations"  # a verified pod's annotations aren't those of its record
    LIMITS = "limits"  # a share's limits aren't those of its record, or can't be read
    LEDGER = "ledger"  # a share's ledger isn't for the cards of its record, or can't be read


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Of one container, by its pod's UID and its name; of the whole pod where that is empty."""

    reason: DifferenceReason
    pod_uid: str
    container: str = ""


def of_running(
    keys: Keys, container: RuntimeContainer, record: PodRecord | None
) -> Iterator[Difference]:
    """Compare a running container's own annotations with its record."""
    given = container.annotations.get(keys.vcuda_device)
    if not given:
        return
    where = {"pod_uid": container.pod_uid, "container": container.name}
    if container.annotations.get(keys.vcuda_pod_uid) not in {None, container.pod_uid}:
        yield Difference(reason=DifferenceReason.OTHER_POD, **where)
    own = None if record is None else record.container(container.name)
    if own is None:
        yield Difference(reason=DifferenceReason.NO_RECORD, **where)
    elif given != cards(own.placement):
        yield Difference(reason=DifferenceReason.OTHER_CARDS, **where)


def of_cards(
    node: Node, container: RuntimeContainer, record: PodRecord | None
) -> Iterator[Difference]:
    """Compare the minors that a running container reaches with those that its cards have now."""
    own = None if record is None else record.container(container.name)
    if own is not None and minors_now(node, own.placement) != own.placement.minors:
        where = {"pod_uid": container.pod_uid, "container": container.name}
        yield Difference(reason=DifferenceReason.RENUMBERED, **where)


def of_devices(
    keys: Keys, record: PodRecord, name: str, held: PodDevices | None
) -> Iterator[Difference]:
    """Compare the devices of a running container with those that the kubelet holds for it."""
    container = record.container(name)
    if container is None:
        return
    if container.placement.kind is ContainerKind.INIT and not (held and name in held.containers):
        return  # PodResources leaves ordinary init containers out
    ours = {keys.vcuda_core: container.core_ids, keys.vcuda_memory: container.memory_ids}
    if any(
        frozenset(ids) != (frozenset() if held is None else held.ids(name, resource))
        for resource, ids in ours.items()
    ):
        yield Difference(reason=DifferenceReason.OTHER_DEVICES, pod_uid=record.uid, container=name)


def of_annotations(keys: Keys, record: PodRecord, pod: Pod) -> Iterator[Difference]:
    """Compare a verified pod's annotations with its record; no node writes those of static pods."""
    if not record.verified or is_static(pod):
        return
    wanted: Mapping[str, str] = encode_decision(
        keys, record.placement, record.decided_ns, assigned=True
    )
    if not wanted.items() <= annotations_of(pod).items():
        yield Difference(reason=DifferenceReason.ANNOTATIONS, pod_uid=record.uid)
