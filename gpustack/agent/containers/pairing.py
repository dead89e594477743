"""Which containers a PreStartContainer call is about, and whether the kubelet agrees.

The call names device IDs only. They are looked up in the records and then compared with what the
kubelet says it gave to that very pod: Allocate had to infer the pod, here the inference is checked.
"""

import logging
from collections.abc import Sequence

from gpustack.adapters.deviceplugin import PluginRefusal
from gpustack.agent.cluster.pods import Pod
from gpustack.agent.containers.records import ContainerRecord, PodRecord, Records
from gpustack.agent.containers.runtime import KubeletView
from gpustack.model.request import ContainerKind
from gpustack.wire.annotations import Keys

logger = logging.getLogger(__name__)


class Pairing:
    """Compares records with the kubelet's own."""

    def __init__(self, *, keys: Keys, records: Records, kubelet: KubeletView) -> None:
        self._keys = keys
        self._records = records
        self._kubelet = kubelet
        self.mismatches = 0

    def of(self, ids: Sequence[str]) -> list[tuple[PodRecord, ContainerRecord]]:
        """Return the containers that hold exactly these `vcuda-core` IDs.

        More than one when an init container handed its IDs on to a container of its pod; what the
        caller does for them is then right for either.

        Raises:
            PluginRefusal: `NotAllocated`, or `PairingMismatch` when the kubelet says that the
                IDs belong to another container.
        """
        wanted = frozenset(ids)
        held = [
            (record, container)
            for record in self._records.all()
            for container in record.containers
            if frozenset(container.core_ids) == wanted
        ]
        if not held:
            raise PluginRefusal("NotAllocated", "no container was given these vcuda-core devices")
        agreed = [pair for pair in held if self._agrees(*pair, wanted)]
        if not agreed:
            self.mismatches += 1
            names = ", ".join(f"{record.namespace}/{record.name}" for record, _ in held)
            raise PluginRefusal(
                "PairingMismatch", f"the kubelet holds the devices of {names} for another pod"
            )
        return agreed

    def _agrees(self, record: PodRecord, container: ContainerRecord, ids: frozenset[str]) -> bool:
        answer = self._kubelet.devices((_pod(record),))
        if answer is None:
            logger.warning("pairing not verified pod=%s/%s", record.namespace, record.name)
            return True
        devices = answer[record.uid]
        if devices is None:
            return False
        if container.placement.kind is ContainerKind.INIT:
            return True  # the kubelet doesn't list ordinary init containers
        return devices.ids(container.name, self._keys.vcuda_core) == ids


def _pod(record: PodRecord) -> Pod:
    """Return what the kubelet is asked by; the watch may have lost the pod meanwhile."""
    return {"metadata": {"uid": record.uid, "namespace": record.namespace, "name": record.name}}
