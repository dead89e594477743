"""The six views of the node's cards, read for one look."""

import time
from collections.abc import Iterator
from typing import Final

from gpustack.agent.audit import differences
from gpustack.agent.audit.differences import Difference, DifferenceReason
from gpustack.agent.cluster.pods import Pod, PodView, uid_of
from gpustack.agent.containers.allocation_records import AllocationRecords, PodRecord
from gpustack.agent.containers.share_limits import ShareLimits
from gpustack.agent.identification.runtime import KubeletView, RuntimeView
from gpustack.model.node import Node
from gpustack.wire.keys import Keys
from gpustack.wire.pods import finished

_KUBELET_SECONDS: Final = 2.0  # how long its rate limit may delay its answer


class CardViews:
    """Reads and compares them."""

    def __init__(
        self,
        *,
        keys: Keys,
        pods: PodView,
        records: AllocationRecords,
        kubelet: KubeletView,
        runtime: RuntimeView,
        limits: ShareLimits,
    ) -> None:
        self._keys = keys
        self._pods = pods
        self._records = records
        self._kubelet = kubelet
        self._runtime = runtime
        self._limits = limits

    def differences(self, node: Node) -> frozenset[Difference] | None:
        """Return what differs now; a container that just starts or ends may be among it.

        Args:
            node: this one, with its cards as they stand.

        Returns:
            None where a view can't be read.
        """
        living = self._runtime.containers()
        if living is None or not self._pods.synced:
            return None
        running = [each for each in living if each.running]
        records = {record.uid: record for record in self._records.all()}
        pods = {uid_of(pod): pod for pod in self._pods.snapshot()[0] if not finished(pod)}
        concerned = tuple(pods[each] for each in records.keys() & pods.keys())
        held = self._kubelet.held(concerned, time.monotonic() + _KUBELET_SECONDS)
        if held is None:
            return None
        found: set[Difference] = set()
        for each in running:
            record = records.get(each.pod_uid)
            found.update(differences.of_running(self._keys, each, record))
            found.update(differences.of_cards(node, each, record))
            if record is not None and each.pod_uid in pods:
                devices = held.get(each.pod_uid)
                found.update(differences.of_devices(self._keys, record, each.name, devices))
        for uid, record in records.items():
            pod = pods.get(uid)
            if pod is not None:
                found.update(differences.of_annotations(self._keys, record, pod))
                found.update(self._of_files(record, pod))
        return frozenset(found)

    def _of_files(self, record: PodRecord, pod: Pod) -> Iterator[Difference]:
        for container in record.containers:
            if container.core_ids and self._limits.concern(record, container):
                for name in self._limits.differing(record, container, pod):
                    yield Difference(
                        reason=DifferenceReason(name), pod_uid=record.uid, container=container.name
                    )
