"""Answering the kubelet's PreStartContainer of `vcuda-core`."""

import dataclasses
from collections.abc import Sequence

from gpustack.adapters.checkpoint import CheckpointError
from gpustack.adapters.deviceplugin import PluginRefusal
from gpustack.agent.cluster.pods import PodView
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.containers.assigned_annotation import AssignedAnnotation
from gpustack.agent.containers.log_step import log_step
from gpustack.agent.containers.share_limits import ShareLimits
from gpustack.agent.identification.pre_start_check import PreStartCheck


class PreStart:
    """Lets a container start once the kubelet agrees with its record."""

    def __init__(
        self,
        *,
        pods: PodView,
        records: AllocationRecords,
        check: PreStartCheck,
        limits: ShareLimits,
        confirmation: AssignedAnnotation,
    ) -> None:
        self._pods = pods
        self._records = records
        self._check = check
        self._limits = limits
        self._confirmation = confirmation

    def start(self, ids: Sequence[str]) -> None:
        """Verify the containers of these IDs, write their limits and the pod's annotations.

        Raises:
            PluginRefusal: the container must not start; the kubelet will try again.
        """
        with self._records.kubelet_call:
            for record, container in self._check.of(ids):
                pod = self._pods.get(record.uid)
                if self._limits.concern(record, container):
                    self._limits.write(record, container, pod)
                self._records.starts.note(record.uid)
                current = self._records.get(record.uid) or record
                verified = current.with_container(dataclasses.replace(container, verified=True))
                try:
                    self._records.put(verified)
                except CheckpointError as error:
                    raise PluginRefusal("CheckpointFailed", str(error)) from error
                if verified.verified:
                    self._confirmation.queue(verified, pod)
                log_step("verified", verified, container)
