"""Answering the kubelet: Allocate of both resources, and PreStartContainer.

Calls run one at a time, as the kubelet makes them. No call waits for a write to the API server, and
every wait has a bound. The `vcuda-core` call carries the whole response; the `vcuda-memory` call is
checked and recorded. Either may come first.
"""

import contextlib
import dataclasses
import logging
import pathlib
import threading
from collections.abc import Iterator, Sequence

from gpustack.adapters.checkpoint import CheckpointError
from gpustack.adapters.deviceplugin import ContainerResponse, PluginRefusal
from gpustack.agent.cluster.pods import Pod, PodView, name_of, uid_of
from gpustack.agent.containers import allocate_response
from gpustack.agent.containers.allocation_records import (
    AllocationRecords,
    ContainerRecord,
    PodRecord,
)
from gpustack.agent.containers.assigned_annotation import AssignedAnnotation
from gpustack.agent.containers.decisions import PodDecisions
from gpustack.agent.containers.limits_files import LimitsFiles, LimitsFilesError
from gpustack.agent.identification.pod_identification import PodIdentification
from gpustack.agent.identification.pod_matching import Match, Resource
from gpustack.agent.identification.pre_start_check import PreStartCheck
from gpustack.agent.node.host_files import HostFiles, HostFilesError, HostPaths
from gpustack.model.request import BadRequest
from gpustack.wire.keys import Keys
from gpustack.wire.user_keys import core_limit

logger = logging.getLogger(__name__)


class Allocator:
    """Carries decisions out, container by container.

    Args:
        host_files: where driver files, hook and device nodes are at the moment.
    """

    def __init__(
        self,
        *,
        keys: Keys,
        pods: PodView,
        records: AllocationRecords,
        finder: PodIdentification,
        decisions: PodDecisions,
        pairing: PreStartCheck,
        folders: LimitsFiles,
        confirmation: AssignedAnnotation,
        host_files: HostFiles,
    ) -> None:
        self._keys = keys
        self._pods = pods
        self._records = records
        self._finder = finder
        self._decisions = decisions
        self._pairing = pairing
        self._folders = folders
        self._confirmation = confirmation
        self._host_files = host_files
        self._lock = threading.Lock()  # one call of the kubelet at a time

    def allocate_cores(self, ids: Sequence[str]) -> ContainerResponse:
        """Answer Allocate of `vcuda-core`: the container's devices, mounts and environment.

        Raises:
            PluginRefusal: the kubelet fails the pod with this reason.
        """
        epoch = self._finder.epoch
        with self._lock, self._admission(Resource.CORE, ids, epoch) as found:
            return self._give_cores(found, ids, epoch)

    def allocate_memory(self, ids: Sequence[str]) -> ContainerResponse:
        """Answer Allocate of `vcuda-memory`: recorded, and nothing is added to the container.

        Raises:
            PluginRefusal: the kubelet fails the pod with this reason.
        """
        epoch = self._finder.epoch
        with self._lock, self._admission(Resource.MEMORY, ids, epoch) as found:
            record, container = self._placed(found)
            changed = dataclasses.replace(container, memory_ids=tuple(ids), memory_epoch=epoch)
            self._put(record.with_container(changed))
            return ContainerResponse()

    @contextlib.contextmanager
    def _admission(self, resource: Resource, ids: Sequence[str], epoch: int) -> Iterator[Match]:
        """Find the container of the call, and remember its pod when it is refused.

        A call may outlive the kubelet that made it: then its answer is lost, and the next
        kubelet asks for the same pod anew.
        """
        if epoch != self._finder.epoch:
            raise PluginRefusal("KubeletRestarted", "the kubelet that asked is gone")
        found = self._finder.find(resource, len(ids), epoch)
        try:
            yield found
        except PluginRefusal:
            self._finder.refused(found.pod, epoch)
            raise

    def pre_start(self, ids: Sequence[str]) -> None:
        """Answer PreStartContainer of `vcuda-core`: verify, write limits and the pod's annotations.

        Raises:
            PluginRefusal: the container must not start; the kubelet will try again.
        """
        with self._lock:
            for record, container in self._pairing.of(ids):
                pod = self._pods.get(record.uid)
                if container.placement.is_share:
                    self._prepare(record, container, pod)
                current = self._records.get(record.uid) or record
                verified = current.with_container(dataclasses.replace(container, verified=True))
                self._put(verified)
                if verified.verified:
                    self._confirmation.queue(verified)
                _log("verified", verified, container)

    def refresh_limits(self, pod: Pod) -> None:
        """Bring a changed burst ceiling into the limits of the pod's running containers."""
        record = self._records.get(uid_of(pod))
        if record is None:
            return
        for container in record.containers:
            if container.placement.is_share and container.core_ids:
                try:
                    self._prepare(record, container, pod)
                except PluginRefusal as error:
                    logger.warning("limits not refreshed pod=%s/%s: %s", *name_of(pod), error)

    def _give_cores(self, found: Match, ids: Sequence[str], epoch: int) -> ContainerResponse:
        record, container = self._placed(found)
        paths = self._paths(container)
        folder = None
        if container.placement.is_share:
            folder = self._prepare(record, container, found.pod)
        answer = allocate_response.build(self._keys, container.placement, paths, folder)
        changed = dataclasses.replace(
            container, core_ids=tuple(ids), core_epoch=epoch, verified=False
        )
        self._put(record.with_container(changed))
        _log("allocated", record, container)
        return answer

    def _placed(self, found: Match) -> tuple[PodRecord, ContainerRecord]:
        hidden = allocate_response.hidden_path(found.pod, found.container.name)
        if hidden is not None:
            raise PluginRefusal(
                "HiddenPath",
                f"container {found.container.name!r}, volumeMounts {hidden}: the GPU stack mounts"
                " its own files there; choose another mountPath",
            )
        record = self._records.get(uid_of(found.pod))
        if record is None:
            record = self._decisions.record(found.pod, found.request)
        container = record.container(found.container.name)
        if container is None:
            name = found.container.name
            raise PluginRefusal(
                "UnjustifiedDecision", f"nothing was decided for container {name!r}"
            )
        return record, container

    def _paths(self, container: ContainerRecord) -> HostPaths:
        try:
            return self._host_files.paths(
                container.placement.minors, with_hook=container.placement.is_share
            )
        except HostFilesError as error:
            raise PluginRefusal("HostIncomplete", str(error)) from error

    def _prepare(
        self, record: PodRecord, container: ContainerRecord, pod: Pod | None
    ) -> pathlib.Path:
        burst = None
        try:
            burst = core_limit(self._keys, pod) if pod is not None else None
        except BadRequest as error:
            # The user's ceiling can't be read: the guaranteed share holds, which is the safe side.
            logger.warning("no burst pod=%s/%s: %s", record.namespace, record.name, error)
        try:
            return self._folders.prepare(record.uid, container.placement, burst)
        except LimitsFilesError as error:
            raise PluginRefusal("LimitsNotWritten", str(error)) from error

    def _put(self, record: PodRecord) -> None:
        try:
            self._records.put(record)
        except CheckpointError as error:
            raise PluginRefusal("CheckpointFailed", str(error)) from error


def _log(what: str, record: PodRecord, container: ContainerRecord) -> None:
    placement = container.placement
    logger.info(
        "%s pod=%s/%s container=%s cards=%s cores=%d memory_units=%d",
        what,
        record.namespace,
        record.name,
        container.name,
        ",".join(map(str, placement.minors)),
        placement.cores,
        placement.memory_units,
    )
