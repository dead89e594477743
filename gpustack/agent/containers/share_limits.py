"""The limits of a share: the container's own, and the burst ceiling that its pod asks for."""

import logging
import pathlib
from collections.abc import Callable

from gpustack.adapters.deviceplugin import PluginRefusal
from gpustack.agent.cluster.pods import Pod, name_of, uid_of
from gpustack.agent.containers.allocation_records import (
    AllocationRecords,
    ContainerRecord,
    PodRecord,
)
from gpustack.agent.containers.limits_files import LimitsFiles, LimitsFilesError
from gpustack.model.request import BadRequest
from gpustack.wire.keys import Keys
from gpustack.wire.user_keys import core_limit

logger = logging.getLogger(__name__)


class ShareLimits:
    """Writes the limits of shares, from their records and pods.

    Args:
        keys: the domain's names.
        records: the allocations.
        folders: where the files lie.
        is_original: says whether a container (pod's UID, its name) was started under the original
            manager: it has the original's library and its files, and never sees ours.
    """

    def __init__(
        self,
        *,
        keys: Keys,
        records: AllocationRecords,
        folders: LimitsFiles,
        is_original: Callable[[str, str], bool],
    ) -> None:
        self._keys = keys
        self._records = records
        self._folders = folders
        self._is_original = is_original

    def concern(self, record: PodRecord, container: ContainerRecord) -> bool:
        """Say whether a container has limits of ours: a share, and none of the original's."""
        is_share = container.placement.is_share
        return is_share and not self._is_original(record.uid, container.name)

    def refresh(self, pod: Pod) -> None:
        """Bring a changed burst ceiling into the limits of the pod's running containers."""
        record = self._records.get(uid_of(pod))
        if record is None:
            return
        for container in record.containers:
            if container.core_ids and self.concern(record, container):
                try:
                    self.write(record, container, pod)
                except PluginRefusal as error:
                    logger.warning("limits not refreshed pod=%s/%s: %s", *name_of(pod), error)

    def write(self, record: PodRecord, container: ContainerRecord, pod: Pod | None) -> pathlib.Path:
        """Make or refresh a share's files and return their folder.

        Args:
            record: the pod's.
            container: the share.
            pod: asks for the burst ceiling; None where it isn't known.

        Raises:
            PluginRefusal: `LimitsNotWritten`.
        """
        burst = self._burst(record, pod)
        try:
            return self._folders.prepare(record.uid, container.placement, burst, container.layout)
        except LimitsFilesError as error:
            raise PluginRefusal("LimitsNotWritten", str(error)) from error

    def differing(
        self, record: PodRecord, container: ContainerRecord, pod: Pod | None
    ) -> tuple[str, ...]:
        """Return which of a share's limits and ledger aren't what `write` makes."""
        burst = self._burst(record, pod)
        return self._folders.differing(record.uid, container.placement, burst)

    def _burst(self, record: PodRecord, pod: Pod | None) -> int | None:
        try:
            return core_limit(self._keys, pod) if pod is not None else None
        except BadRequest as error:
            # The user's ceiling can't be read: the guaranteed share holds, which is the safe side.
            logger.warning("no burst pod=%s/%s: %s", record.namespace, record.name, error)
            return None
