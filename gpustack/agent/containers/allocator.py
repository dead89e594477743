"""Answering the kubelet's Allocate of both resources.

Calls run one at a time, as the kubelet makes them. No call waits for a write to the API server, and
every wait has a bound. The `vcuda-core` call carries the whole response; the `vcuda-memory` call is
checked and recorded. Either may come first.
"""

import contextlib
import dataclasses
import logging
from collections.abc import Iterator, Sequence

from gpustack.adapters.checkpoint import CheckpointError
from gpustack.adapters.deviceplugin import ContainerResponse, PluginRefusal
from gpustack.agent.cluster.pods import Pod, name_of, uid_of
from gpustack.agent.containers import allocate_response
from gpustack.agent.containers.allocation_records import (
    AllocationRecords,
    ContainerRecord,
    PodRecord,
)
from gpustack.agent.containers.decisions import PodDecisions
from gpustack.agent.containers.log_step import log_step
from gpustack.agent.containers.share_limits import ShareLimits
from gpustack.agent.identification.pod_identification import PodIdentification
from gpustack.agent.identification.pod_matching import Match, Resource
from gpustack.agent.node.host_files import HostFiles, HostFilesError, HostPaths
from gpustack.model.refusal import Reason
from gpustack.model.request import BadRequest
from gpustack.wire.keys import Keys
from gpustack.wire.kube import mount_paths
from gpustack.wire.user_keys import library_path

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
        records: AllocationRecords,
        finder: PodIdentification,
        decisions: PodDecisions,
        limits: ShareLimits,
        host_files: HostFiles,
    ) -> None:
        self._keys = keys
        self._records = records
        self._finder = finder
        self._decisions = decisions
        self._limits = limits
        self._host_files = host_files

    def expect_cores(self, ids: Sequence[str]) -> None:
        """Take note that the kubelet is about to call Allocate with these `vcuda-core` IDs."""
        self._finder.expect(Resource.CORE, ids)

    def expect_memory(self, ids: Sequence[str]) -> None:
        """Take note of the same for `vcuda-memory`."""
        self._finder.expect(Resource.MEMORY, ids)

    def allocate_cores(self, ids: Sequence[str]) -> ContainerResponse:
        """Answer Allocate of `vcuda-core`: the container's devices, mounts and environment.

        Raises:
            PluginRefusal: the kubelet fails the pod with this reason.
        """
        epoch = self._finder.epoch
        with self._records.kubelet_call, self._admission(Resource.CORE, ids, epoch) as found:
            return self._give_cores(found, ids, epoch)

    def allocate_memory(self, ids: Sequence[str]) -> ContainerResponse:
        """Answer Allocate of `vcuda-memory`: recorded, and nothing is added to the container.

        Raises:
            PluginRefusal: the kubelet fails the pod with this reason.
        """
        epoch = self._finder.epoch
        with self._records.kubelet_call, self._admission(Resource.MEMORY, ids, epoch) as found:
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
        found = self._finder.find(resource, ids, epoch)
        try:
            yield found
        except PluginRefusal:
            self._finder.refused(found.pod, epoch)
            raise

    def _give_cores(self, found: Match, ids: Sequence[str], epoch: int) -> ContainerResponse:
        record, container = self._placed(found)
        paths = self._paths(container)
        folder = None
        if container.placement.is_share:
            container = dataclasses.replace(container, layout=paths.layout)
            folder = self._limits.write(record, container, found.pod)
        answer = allocate_response.build(
            self._keys,
            record.uid,
            container.placement,
            paths,
            folder,
            library_path=self._gives_library_path(found.pod, paths),
        )
        changed = dataclasses.replace(
            container, core_ids=tuple(ids), core_epoch=epoch, verified=False
        )
        self._put(record.with_container(changed))
        log_step("allocated", record, container)
        return answer

    def _gives_library_path(self, pod: Pod, paths: HostPaths) -> bool:
        try:
            asked = library_path(self._keys, pod)
        except BadRequest as error:
            # An Event of the extender's names the key; the node's setting stands.
            logger.warning("driver path as the node has it pod=%s/%s: %s", *name_of(pod), error)
            asked = None
        return paths.gives_library_path if asked is None else asked

    def _placed(self, found: Match) -> tuple[PodRecord, ContainerRecord]:
        hidden = mount_paths.hiding_mount(
            found.pod, found.container.name, is_share=found.container.is_share
        )
        if hidden is not None:
            raise PluginRefusal(
                "HiddenPath",
                f"container {found.container.name!r}, {hidden}: the GPU stack has mounts of its"
                " own there or below; choose another path",
            )
        record = self._records.get(uid_of(found.pod))
        if record is None:
            record = self._decisions.record(found.pod, found.request)
        container = record.container(found.container.name)
        if container is None:
            name = found.container.name
            raise PluginRefusal(
                Reason.UNJUSTIFIED_DECISION, f"nothing was decided for container {name!r}"
            )
        self._decisions.check_cards(container)
        return record, container

    def _paths(self, container: ContainerRecord) -> HostPaths:
        try:
            return self._host_files.paths(container.placement)
        except HostFilesError as error:
            raise PluginRefusal("HostIncomplete", str(error)) from error

    def _put(self, record: PodRecord) -> None:
        try:
            self._records.put(record)
        except CheckpointError as error:
            raise PluginRefusal("CheckpointFailed", str(error)) from error
