"""Records for containers that hold cards and have none: the checkpoint was lost or is older.

A running container's cards stand in the runtime, in the annotations that its Allocate response
carried; the kubelet knows its device IDs; the rest is the pod's decision.
"""

import contextlib
import dataclasses
import logging
import re
import time
from collections.abc import Mapping

from gpustack.adapters.checkpoint import CheckpointError
from gpustack.adapters.cri import RuntimeContainer
from gpustack.adapters.podresources import PodDevices
from gpustack.agent.cluster.pods import Pod, PodView, name_of, uid_of
from gpustack.agent.containers.allocation_records import (
    AllocationRecords,
    ContainerRecord,
    PodRecord,
    Source,
)
from gpustack.agent.containers.assigned_annotation import AssignedAnnotation
from gpustack.agent.identification.runtime import Held, KubeletView
from gpustack.agent.node.inventory import CardInventory
from gpustack.model.placement import ContainerPlacement
from gpustack.model.request import BadRequest, ContainerKind, ContainerRequest, PodRequest
from gpustack.model.units import CORES_PER_CARD, MEMORY_UNIT_BYTES
from gpustack.wire.annotations import BadAnnotation, Decision, decode_decision
from gpustack.wire.keys import Keys
from gpustack.wire.pods import finished, parse_held_limits

logger = logging.getLogger(__name__)

_KUBELET_SECONDS = 5.0  # how long its rate limit may keep an agent from starting
_CARD = re.compile(r"/dev/nvidia([0-9]{1,3})")


class Restore:
    """Makes records for pods that hold cards without one."""

    def __init__(
        self,
        *,
        keys: Keys,
        inventory: CardInventory,
        pods: PodView,
        records: AllocationRecords,
        kubelet: KubeletView,
        confirmation: AssignedAnnotation,
    ) -> None:
        self._keys = keys
        self._inventory = inventory
        self._pods = pods
        self._records = records
        self._kubelet = kubelet
        self._confirmation = confirmation
        self._open: frozenset[str] | None = None  # UIDs of pods whose record isn't whole yet

    @property
    def is_done(self) -> bool:
        """Whether every pod that was here at the start has a whole record or needs none."""
        return self._open is not None and not self._open

    def is_open(self, uid: str) -> bool:
        """Say whether this pod's record may still be restored."""
        return self._open is None or uid in self._open

    def adopt(self, living: tuple[RuntimeContainer, ...]) -> None:
        """Go through the pods of the start; write the annotations that the last agent left out.

        A kubelet that is away or has just started can't say which devices a pod holds, and without
        them its containers could not be started again: call this until `is_done`.

        Args:
            living: the containers that run.
        """
        lacking = []
        pods = self._pods.snapshot()[0]
        self.take_up_podless(living)
        for pod in pods:
            uid = uid_of(pod)
            if self._open is not None and uid not in self._open:
                continue
            request = self._request(pod)
            if request is None:
                continue
            record = self._records.get(uid)
            if record is not None and not _lacks_devices(record):
                self._finish(pod, record)
            else:
                lacking.append((pod, request, record))
        held = self._held(tuple(pod for pod, _, _ in lacking))
        self._open = frozenset(
            uid_of(pod)
            for pod, request, record in lacking
            if not self._settle(pod, request, living, record, held.get(uid_of(pod)))
        )

    def take_up(self, pod: Pod, living: tuple[RuntimeContainer, ...]) -> bool:
        """Make the record of one pod whose containers run without; return whether it is whole.

        None is made where the kubelet doesn't say which devices they have: no container of the pod
        could start with that.
        """
        request = self._request(pod)
        if request is None:
            return False
        here = {each.name: each for each in living if each.pod_uid == uid_of(pod)}
        record = self._record(pod, request, here, None, self._held((pod,)).get(uid_of(pod)))
        if record is None or _lacks_devices(record):
            return False
        return self._take_up(pod, None, record)

    def take_up_podless(self, living: tuple[RuntimeContainer, ...]) -> None:
        """Record containers that run although their pod was deleted by force, or has failed.

        They keep their cards until they end, and their own annotations say which.
        """
        present = {uid_of(pod) for pod in self._pods.snapshot()[0] if not finished(pod)}
        known = present.union(record.uid for record in self._records.all())
        podless: dict[str, list[RuntimeContainer]] = {}
        for each in living:
            if each.running and each.pod_uid not in known and self._minors(each):
                podless.setdefault(each.pod_uid, []).append(each)
        for uid, containers in podless.items():
            namespace, name = containers[0].pod
            record = PodRecord(
                uid=uid,
                namespace=namespace,
                name=name,
                node=self._inventory.node.name,
                decided_ns=time.time_ns(),
                source=Source.RECOVERED,
                containers=tuple(map(self._podless, range(len(containers)), containers)),
            )
            self._records.hold(record)
            logger.warning("took up an ended pod that still runs pod=%s/%s", namespace, name)

    def _podless(self, index: int, container: RuntimeContainer) -> ContainerRecord:
        """Return a container as its annotations say; unreadable amounts are those of the card."""
        minors, said = self._minors(container), container.annotations
        asked = ContainerRequest(
            name=container.name, index=index, cores=CORES_PER_CARD * len(minors), memory_units=0
        )
        with contextlib.suppress(KeyError, ValueError):
            units = int(said[self._keys.vcuda_memory]) // MEMORY_UNIT_BYTES
            cores = int(said[self._keys.vcuda_core])
            asked = dataclasses.replace(asked, cores=cores, memory_units=units)
        return ContainerRecord(placement=self._placed(asked, minors))

    def _held(self, pods: tuple[Pod, ...]) -> Held:
        return self._kubelet.held(pods, time.monotonic() + _KUBELET_SECONDS) or {}

    def _request(self, pod: Pod) -> PodRequest | None:
        try:
            return None if finished(pod) else parse_held_limits(self._keys, pod)
        except BadRequest:
            return None  # no manager ever gave it a card

    def _finish(self, pod: Pod, record: PodRecord) -> None:
        annotations = pod["metadata"].get("annotations") or {}
        if record.verified and annotations.get(self._keys.gpu_assigned) != "true":
            self._confirmation.queue(record, pod)

    def _settle(
        self,
        pod: Pod,
        request: PodRequest,
        living: tuple[RuntimeContainer, ...],
        before: PodRecord | None,
        held: PodDevices | None,
    ) -> bool:
        """Restore the pod's record, if possible; return whether the pod is done."""
        here = {each.name: each for each in living if each.pod_uid == uid_of(pod)}
        if not _holds_any(held) and (before is not None or not here):
            return False  # no answer, or it holds no device yet and its Allocate is still to come
        record = self._record(pod, request, here, before, held)
        if record is None:
            logger.error("a pod holds devices that are not known pod=%s/%s", *name_of(pod))
            return True
        if before is not None and _lacks_devices(record):
            return False
        return self._take_up(pod, before, record)

    def _take_up(self, pod: Pod, before: PodRecord | None, record: PodRecord) -> bool:
        try:
            if not self._records.exchange(before, record):
                return False  # its Allocate came just now
        except CheckpointError as error:
            logger.warning("pod not taken up pod=%s/%s: %s", *name_of(pod), error)
            self._records.hold(record)  # it runs: nobody else may get its cards meanwhile
            return False
        logger.info("took up a pod that has no record pod=%s/%s", *name_of(pod))
        if _lacks_devices(record):
            return False
        self._finish(pod, record)
        return True

    def _record(
        self,
        pod: Pod,
        request: PodRequest,
        here: Mapping[str, RuntimeContainer],
        before: PodRecord | None,
        held: PodDevices | None,
    ) -> PodRecord | None:
        decision = self._decision(pod, request)
        containers = []
        for asked in request.containers:
            decided = _decided(asked, decision)
            placement = self._running(asked, here.get(asked.name), decided) or decided
            made = None if placement is None else ContainerRecord(placement=placement)
            known = before.container(asked.name) if before else None
            if (container := known or made) is not None:
                containers.append(self._with_devices(container, held))
        if not containers:
            return None
        namespace, name = name_of(pod)
        return PodRecord(
            uid=uid_of(pod),
            namespace=namespace,
            name=name,
            node=self._inventory.node.name,
            decided_ns=decision.time_ns if decision else time.time_ns(),
            source=Source.RECOVERED,
            containers=tuple(containers),
        )

    def _with_devices(self, container: ContainerRecord, held: PodDevices | None) -> ContainerRecord:
        if held is None:
            return container
        cores = tuple(sorted(held.ids(container.name, self._keys.vcuda_core)))
        memory = tuple(sorted(held.ids(container.name, self._keys.vcuda_memory)))
        return dataclasses.replace(
            container,
            core_ids=cores or container.core_ids,
            memory_ids=memory or container.memory_ids,
        )

    def _decision(self, pod: Pod, request: PodRequest) -> Decision | None:
        try:
            return decode_decision(self._keys, pod, request)
        except BadAnnotation as error:
            logger.warning("decision unreadable pod=%s/%s: %s", *name_of(pod), error)
            return None

    def _running(
        self,
        asked: ContainerRequest,
        container: RuntimeContainer | None,
        decided: ContainerPlacement | None,
    ) -> ContainerPlacement | None:
        """Return a living container's cards: minors as it was given, UUIDs as they were decided."""
        minors = self._minors(container) if container else ()
        return self._placed(asked, minors, decided) if minors else None

    def _minors(self, container: RuntimeContainer) -> tuple[int, ...]:
        text = container.annotations.get(self._keys.vcuda_device, "")
        return tuple(sorted({int(minor) for minor in _CARD.findall(text)}))

    def _placed(
        self,
        asked: ContainerRequest,
        minors: tuple[int, ...],
        decided: ContainerPlacement | None = None,
    ) -> ContainerPlacement:
        known = {card.minor: card.uuid for card in self._inventory.node.cards}
        if decided is not None:
            pairs = zip(decided.minors, decided.uuids, strict=True)
            known |= {minor: uuid for minor, uuid in pairs if uuid}
        return ContainerPlacement(
            name=asked.name,
            kind=asked.kind,
            index=asked.index,
            minors=minors,
            uuids=tuple(known.get(minor, "") for minor in minors),
            cores=asked.cores,
            memory_units=asked.memory_units,
        )


def _holds_any(held: PodDevices | None) -> bool:
    return held is not None and any(held.containers.values())


def _lacks_devices(record: PodRecord) -> bool:
    """Say whether a record lacks device IDs; those that were restored lack init containers'."""
    return not all(
        container.core_ids
        for container in record.containers
        if container.placement.kind is not ContainerKind.INIT
    )


def _decided(asked: ContainerRequest, decision: Decision | None) -> ContainerPlacement | None:
    placed = () if decision is None else decision.placement.containers
    key = (asked.kind, asked.index)
    return next((each for each in placed if (each.kind, each.index) == key), None)
