"""The refusals of PreStartContainer where the kubelet holds devices for a pod without a record.

The record of the pod that Allocate inferred is taken back, and the pod that the kubelet means is
failed.
"""

import logging
from collections.abc import Callable, Collection, Sequence

from gpustack.adapters.checkpoint import CheckpointError
from gpustack.adapters.deviceplugin import PluginRefusal
from gpustack.agent.cluster.pod_failure import PodFailure
from gpustack.agent.cluster.pods import PodView, name_of
from gpustack.agent.containers.allocation_records import (
    AllocationRecords,
    ContainerRecord,
    PodRecord,
)
from gpustack.agent.node.inventory import CardInventory
from gpustack.model.codes import AdmissionReason
from gpustack.model.refusal import Reason
from gpustack.model.verification import wrong_cards
from gpustack.wire.pods import is_static

logger = logging.getLogger(__name__)

_CURE = "the pod is failed, its controller makes another"

Pair = tuple[PodRecord, ContainerRecord]


class PairingRefusals:
    """Makes the refusals, and puts the records and pods right that they concern.

    Args:
        may_come: whether the record of a pod (by UID) may still be restored: its absence is no
            proof then.
        inventory: the cards as they are numbered now.

    Attributes:
        mismatches: refusals of devices that belong to another pod, or to one without a record.
    """

    def __init__(
        self,
        *,
        pods: PodView,
        records: AllocationRecords,
        failure: PodFailure,
        may_come: Callable[[str], bool],
        inventory: CardInventory,
    ) -> None:
        self._pods = pods
        self._records = records
        self._failure = failure
        self._may_come = may_come
        self._inventory = inventory
        self.mismatches = 0

    def not_recorded(
        self, ids: frozenset[str], uids: Sequence[str], holding: Collection[str] = ()
    ) -> PluginRefusal:
        """Refuse devices that the pods with these UIDs hold without a record.

        Args:
            ids: the devices.
            uids: their pods.
            holding: the UIDs of all pods that may hold them, as the kubelet gives some out twice.
        """
        problem = "no container was given these vcuda-core devices"
        final = [uid for uid in uids if not self._may_come(uid)]
        if uids and not final:
            return PluginRefusal("NotAllocated", f"{problem}, as far as is known yet")
        if holders := self._records.with_core_ids(ids):
            # Who reads a pod's failure may not know other namespaces' pods: a UID tells no name.
            held_by = ", ".join(sorted({record.uid for record, _ in holders}))
            problem = f"the kubelet holds the devices of the pod with UID {held_by} for another"
            if final:
                self._take_back([pair for pair in holders if pair[0].uid not in holding])
        return self.mismatch("PairingMismatch" if holders else "NotAllocated", problem, final)

    def renumbered(self, pairs: Sequence[Pair]) -> PluginRefusal | None:
        """Refuse a container whose minors are other cards' now, by the UUIDs of its record."""
        node = self._inventory.node
        for record, container in pairs:
            refusal = wrong_cards(node, (container.placement,))
            if refusal is not None and refusal.reason is Reason.CARD_RENUMBERED:
                return self._fail(refusal.reason, refusal.detail, [record.uid])
        return None

    def mismatch(self, code: AdmissionReason, problem: str, uids: Sequence[str]) -> PluginRefusal:
        """Count it and fail these pods; return the refusal for the kubelet."""
        self.mismatches += 1
        return self._fail(code, problem, uids)

    def _fail(
        self, code: AdmissionReason | Reason, problem: str, uids: Sequence[str]
    ) -> PluginRefusal:
        """Fail the visible ones of these pods; return the refusal for the kubelet.

        A static pod can't be failed: the kubelet doesn't read the status of its mirror.
        """
        seen = [pod for uid in uids if (pod := self._pods.get(uid)) is not None]
        pods = [pod for pod in seen if not is_static(pod)]
        for pod in pods:
            self._failure.queue(pod, reason=code, message=problem)
        if not pods:
            return PluginRefusal(code, problem)
        names = ", ".join("/".join(name_of(pod)) for pod in pods)
        return PluginRefusal(code, f"{problem}, {names}: {_CURE}")

    def _take_back(self, pairs: Sequence[Pair]) -> None:
        """Forget the record of the wrong pod: the kubelet has yet to ask for the right one.

        A record that was proven once stays; the kubelet may have lost its file since.
        """
        for record, mistaken in pairs:
            before = self._records.get(record.uid)
            if before is None or mistaken.verified:
                continue
            nothing = ContainerRecord(placement=mistaken.placement)
            try:
                self._records.exchange(before, before.with_container(nothing))
            except CheckpointError as error:
                logger.warning("not taken back pod=%s/%s: %s", record.namespace, record.name, error)
