"""What the audit may put right by itself: nothing that takes a card from a container."""

import logging

from gpustack.adapters.deviceplugin import PluginRefusal
from gpustack.agent.audit.differences import Difference, DifferenceReason
from gpustack.agent.cluster.pods import Pod, PodView
from gpustack.agent.containers.allocation_records import AllocationRecords, PodRecord
from gpustack.agent.containers.assigned_annotation import AssignedAnnotation
from gpustack.agent.containers.restore import Restore
from gpustack.agent.containers.share_limits import ShareLimits
from gpustack.agent.identification.runtime import RuntimeView

logger = logging.getLogger(__name__)


class Mends:
    """Writes annotations and limits again, and takes up containers that run without a record."""

    def __init__(
        self,
        *,
        pods: PodView,
        records: AllocationRecords,
        runtime: RuntimeView,
        restore: Restore,
        confirmation: AssignedAnnotation,
        limits: ShareLimits,
    ) -> None:
        self._pods = pods
        self._records = records
        self._runtime = runtime
        self._restore = restore
        self._confirmation = confirmation
        self._limits = limits

    def is_due(self, difference: Difference) -> bool:
        """Say whether this is no more to be expected: the record isn't being restored."""
        return not self._restore.is_open(difference.pod_uid)

    def mend(self, difference: Difference) -> bool:
        """Put a difference right where that is safe; return whether it did."""
        pod, record = self._pods.get(difference.pod_uid), self._records.get(difference.pod_uid)
        if record is None:
            lacks = difference.reason is DifferenceReason.NO_RECORD
            return lacks and self._take_up(difference.pod_uid, pod)
        if pod is None:
            return False
        if difference.reason is DifferenceReason.ANNOTATIONS:
            self._confirmation.queue(record, pod)
            return True
        return self._write(difference, record, pod)

    def _write(self, difference: Difference, record: PodRecord, pod: Pod) -> bool:
        container = record.container(difference.container)
        if container is None or difference.reason not in {
            DifferenceReason.LIMITS,
            DifferenceReason.LEDGER,
        }:
            return False
        try:
            self._limits.write(record, container, pod)
        except PluginRefusal as error:
            logger.warning("not mended: %s", error)
            return False
        return difference.reason.value not in self._limits.differing(record, container, pod)

    def _take_up(self, uid: str, pod: Pod | None) -> bool:
        living = self._runtime.containers()
        if living is None:
            return False
        if pod is not None:
            return self._restore.take_up(pod, living)
        self._restore.take_up_podless(living)
        return self._records.get(uid) is not None
