"""Agreement between our records and the world: after a restart, and when pods end.

A pod's cards are free once the API server says that it has ended or is gone *and* no container of
it runs. That the kubelet lists no devices for it frees nothing: it forgets more easily than a card
can be taken back. What runs without a record is taken up again from what the runtime and the API
server know of it.
"""

import functools
import logging
import math
import threading
import time
from collections.abc import Callable

from gpustack.adapters.checkpoint import CheckpointError
from gpustack.adapters.cri import RuntimeContainer
from gpustack.adapters.kube import KubeError, KubeUnavailable
from gpustack.agent.cluster.pods import PodView
from gpustack.agent.containers.allocation_records import AllocationRecords, PodRecord
from gpustack.agent.containers.limits_files import LimitsFiles, LimitsFilesError
from gpustack.agent.containers.restore import Restore
from gpustack.agent.identification.runtime import RuntimeView
from gpustack.wire.pods import finished

logger = logging.getLogger(__name__)

_ASK_SECONDS = 2.0
_BEGIN_SECONDS = 10.0  # of the time that systemd gives the agent to start (TimeoutStartSec)


class Recovery:
    """Frees what has ended and adopts what runs.

    Args:
        period_seconds: how often to look when nothing happens.

    Attributes:
        failures: how often something of an ended pod could not be freed.
    """

    def __init__(
        self,
        *,
        pods: PodView,
        records: AllocationRecords,
        runtime: RuntimeView,
        folders: LimitsFiles,
        adoption: Restore,
        period_seconds: float,
    ) -> None:
        self._pods = pods
        self._records = records
        self._runtime = runtime
        self._folders = folders
        self._adoption = adoption
        self._period_seconds = period_seconds
        self.failures = 0
        self._lock = threading.Lock()  # guards _stuck: Allocate frees what has ended, too
        self._stuck: dict[str, str] = {}  # by UID of a pod that has ended: why something is left

    def begin(self) -> None:
        """Look once, before the kubelet may ask; what a slow API server leaves is for later."""
        self.restore()
        self.free_ended(time.monotonic() + _BEGIN_SECONDS)

    def run(self, stop: threading.Event) -> None:
        """Look again and again; soon after a pod changed, and every `period_seconds`."""
        while not stop.is_set():
            _, version = self._pods.snapshot()
            self.restore()
            self.free_ended()
            self._pods.wait_or_stop(version, stop, self._period_seconds)

    @property
    def is_whole(self) -> bool:
        """Whether all that was here at the start is in the records."""
        return self._adoption.is_done

    def may_take_up(self, uid: str) -> bool:
        """Say whether this pod's record may still come from what the world says."""
        return self._adoption.is_open(uid)

    @property
    def stuck(self) -> int:
        """Of how many ended pods something is left that can't be freed; it is tried again."""
        return len(self._stuck)

    def restore(self) -> None:
        """Adopt containers without a record, as soon as the API server was read, until all are."""
        if self.is_whole or not self._pods.synced:
            return
        living = self._runtime.containers()
        if living is not None:
            self._adoption.adopt(living)

    def free_ended(self, deadline: float = math.inf) -> None:
        """Free the cards and folders of pods that have ended.

        Args:
            deadline: nothing more is asked after it, monotonic seconds; the rest is for later.
        """
        if not self._pods.synced:
            return
        ended = [record for record in self._records.all() if self._may_have_ended(record.uid)]
        orphans = [uid for uid in self._folders.pods() if self._may_have_ended(uid)]
        concerned = {record.uid for record in ended}.union(orphans)
        with self._lock:
            self._stuck = {uid: why for uid, why in self._stuck.items() if uid in concerned}
        if not concerned:
            return
        living = self._runtime.containers()
        if living is None:
            return
        for record in ended:
            free = functools.partial(self._free_if_ended, record, living, deadline)
            if not self._attempt(record.uid, free):
                break
        for uid in orphans:
            self._attempt(uid, functools.partial(self._remove_orphan, uid, living))

    def _attempt(self, uid: str, step: Callable[[], None]) -> bool:
        """Do what is to be done for one pod; that it fails is said once, and stops no other.

        Returns:
            False where the API server is away: it won't answer the next question either.
        """
        try:
            step()
        except KubeUnavailable as error:
            logger.warning("ended pods keep their cards for now: %s", error)
            return False
        except (KubeError, CheckpointError, LimitsFilesError) as error:
            with self._lock:
                self.failures += 1
                before, self._stuck[uid] = self._stuck.get(uid), str(error)
            if before != str(error):
                logger.warning("something is left of an ended pod pod_uid=%s: %s", uid, error)
        else:
            with self._lock:
                self._stuck.pop(uid, None)
        return True

    def _free_if_ended(
        self, record: PodRecord, living: tuple[RuntimeContainer, ...], deadline: float
    ) -> None:
        if self._has_ended(record, living, deadline):
            self._free(record)

    def _remove_orphan(self, uid: str, living: tuple[RuntimeContainer, ...]) -> None:
        if self._records.get(uid) is None and not _runs(uid, living):
            self._folders.remove(uid)

    def _may_have_ended(self, uid: str) -> bool:
        pod = self._pods.get(uid)
        return pod is None or finished(pod)

    def _has_ended(
        self, record: PodRecord, living: tuple[RuntimeContainer, ...], deadline: float
    ) -> bool:
        if _runs(record.uid, living):
            return False
        shown = self._pods.get(record.uid)
        if shown is not None:
            return finished(shown)  # it may have been absent a moment ago
        # Absent from the watch may also mean: not shown yet. Only the API server can tell.
        seconds = min(_ASK_SECONDS, deadline - time.monotonic())
        pod = (record.namespace, record.name)
        if seconds <= 0 or not self._pods.is_gone(record.uid, pod, seconds):
            return False
        # Deleted by force, it may have started while others were asked about.
        now = self._runtime.containers()
        return now is not None and not _runs(record.uid, now)

    def _free(self, record: PodRecord) -> None:
        self._records.remove(record.uid)
        self._folders.remove(record.uid)
        logger.info("cards are free again pod=%s/%s", record.namespace, record.name)


def _runs(uid: str, living: tuple[RuntimeContainer, ...]) -> bool:
    """Say whether a container of the pod runs; of an ended pod, a created one never will."""
    return any(container.pod_uid == uid and container.running for container in living)
