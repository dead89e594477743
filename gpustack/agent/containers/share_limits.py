"""The limits of a share: the container's own, and the burst ceiling that its pod asks for."""

import logging
import pathlib
import threading
import time
from collections.abc import Callable
from typing import Final

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

_LOOK_SECONDS: Final = 0.1  # how soon a stop is noticed
_PAUSE: Final = 4.0  # times what the files took: a fifth of a processor at most
_MOST_REFRESHED: Final = 1024  # pods; the kubelet runs 110 unless told otherwise


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
        # By UID: the record and the ceiling that `_refresh` has seen, so that no user's annotations
        # cost more than a look at them. The audit finds files that differ all the same.
        self._refreshed: dict[str, tuple[PodRecord, int | None]] = {}
        self._lock = threading.Lock()  # guards _changed
        self._changed: dict[str, Pod] = {}  # by UID, since `run` looked
        self._noted = threading.Event()

    def concern(self, record: PodRecord, container: ContainerRecord) -> bool:
        """Say whether a container has limits of ours: a share, and none of the original's."""
        is_share = container.placement.is_share
        return is_share and not self._is_original(record.uid, container.name)

    def note(self, pod: Pod) -> None:
        """Take note of a pod that has changed; a caller doesn't wait for its files."""
        with self._lock:
            self._changed[uid_of(pod)] = pod
        self._noted.set()

    def run(self, stop: threading.Event) -> None:
        """Bring changed burst ceilings into the limits of running containers, until `stop` is set.

        A user may change those of 64 containers again and again: each pod has its turn.
        """
        while not stop.is_set():
            if not self._noted.wait(_LOOK_SECONDS):
                continue
            self._noted.clear()
            began = time.monotonic()
            with self._lock:
                changed, self._changed = self._changed, {}
            for pod in changed.values():
                self._refresh(pod)
            stop.wait(_PAUSE * (time.monotonic() - began))

    def _refresh(self, pod: Pod) -> None:
        record = self._records.get(uid_of(pod))
        if record is None:
            return
        wanted, refreshed = (record, self._burst(record, pod)), self._refreshed
        if refreshed.pop(record.uid, None) != wanted and not self._rewrite(record, pod):
            return
        refreshed[record.uid] = wanted
        if len(refreshed) > _MOST_REFRESHED:
            del refreshed[next(iter(refreshed))]

    def _rewrite(self, record: PodRecord, pod: Pod) -> bool:
        """Refresh the files of a pod's running containers; return whether all could be."""
        written = True
        for container in record.containers:
            if container.core_ids and self.concern(record, container):
                try:
                    self.write(record, container, pod)
                except PluginRefusal as error:
                    logger.warning("limits not refreshed pod=%s/%s: %s", *name_of(pod), error)
                    written = False
        return written

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
