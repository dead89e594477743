"""Agreement of our records with runtime and API server: after a restart, and when pods end.

A pod's cards are free once the API server says that it has ended or is gone *and* no container of
it runs, or was let start just now. A pod without devices in the kubelet's list keeps its cards: the
kubelet forgets more easily than a card can be taken back. A container that runs without a record
gets one again from the runtime and the API server.
"""

import functools
import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable

from gpustack.adapters.checkpoint import CheckpointError
from gpustack.adapters.kube import KubeError, KubeUnavailable
from gpustack.agent.cluster.pods import PodView
from gpustack.agent.containers.allocation_records import AllocationRecords, PodRecord
from gpustack.agent.containers.limits_files import LimitsFiles, LimitsFilesError
from gpustack.agent.containers.restore import Restore
from gpustack.agent.identification.runtime import RuntimeLook, RuntimeView
from gpustack.model.node import Node
from gpustack.model.placement import apply
from gpustack.wire.pods import finished

logger = logging.getLogger(__name__)

_ASK_SECONDS = 2.0
_HELD_SECONDS = 2.0  # between looks while cards are kept for containers of pods that are over
_BEGIN_SECONDS = 10.0  # of the time that systemd gives the agent to start (TimeoutStartSec)


class Recovery:
    """Frees the cards of ended pods and restores the records of running ones.

    Args:
        period_seconds: how often to look without a change of a pod.

    Attributes:
        failures: failed attempts to free the cards and folders of an ended pod.
    """

    def __init__(
        self,
        *,
        pods: PodView,
        records: AllocationRecords,
        runtime: RuntimeView,
        folders: LimitsFiles,
        adoption: Restore,
        period_seconds: float = 30.0,
    ) -> None:
        self._pods = pods
        self._records = records
        self._runtime = runtime
        self._folders = folders
        self._adoption = adoption
        self._period_seconds = period_seconds
        self.failures = 0
        self._lock = threading.Lock()  # guards _stuck: Allocate frees what has ended, too
        # UIDs of pods that are over, whose containers run; None before the first look.
        self._over: frozenset[str] | None = None
        self._stuck: dict[str, str] = {}  # by UID of an ended pod: why cards or folders are left

    def begin(self) -> None:
        """Look once, before the kubelet may ask; pods of a slow API server come later."""
        self.restore()
        deadline = time.monotonic() + _BEGIN_SECONDS
        self.free_cards(deadline)
        self._look_for_over(deadline)

    def run(self, stop: threading.Event) -> None:
        """Look again and again; soon after a pod changed, and every `period_seconds`."""
        while not stop.is_set():
            _, version = self._pods.snapshot()
            self._records.retry()
            self.restore()
            self.free_ended()
            self._look_for_over()
            soon = self._over is None or self._over or self._records.starts.any
            self._pods.wait_or_stop(version, stop, _HELD_SECONDS if soon else self._period_seconds)

    def with_held(self, node: Node) -> Node | None:
        """Return the node with the cards taken that pods hold which are over; None: not known."""
        over = self._over
        if over is None:
            return None
        for record in self._records.all() if over else ():
            if record.uid in over:
                node = apply(node, record.placement)
        return node

    @property
    def is_whole(self) -> bool:
        """Whether all pods of the start are in the records."""
        return self._adoption.is_done

    def may_take_up(self, uid: str) -> bool:
        """Say whether this pod's record may still be restored."""
        return self._adoption.is_open(uid)

    @property
    def stuck(self) -> int:
        """Number of ended pods with cards or folders that can't be freed; each is tried again."""
        return len(self._stuck)

    def restore(self) -> None:
        """Restore containers without a record once the API server was read, until all have one."""
        if self.is_whole or not self._pods.synced:
            return
        living = self._runtime.containers()
        if living is not None:
            self._adoption.adopt(living)

    def free_ended(self) -> None:
        """Free the cards and folders of pods that have ended."""
        self.free_cards()
        if not self._pods.synced:
            return
        orphans = [uid for uid in self._folders.pods() if self._is_orphan(uid)]
        self._forget_others({record.uid for record in self._records.all()}.union(orphans))
        if not orphans or (look := self._runtime.look()) is None:
            return
        for uid in orphans:
            if not look.runs(uid) and self._is_orphan(uid):
                self._attempt(uid, functools.partial(self._folders.remove, uid))

    def free_cards(self, deadline: float = math.inf) -> None:
        """Free the cards of pods that have ended.

        Their folders are left to `free_ended`: their removal may wait for another program, or for
        a tenant's write, and an Allocate must not.

        Args:
            deadline: no request is sent after it, monotonic seconds; the other pods come later.
        """
        if not self._pods.synced:
            return
        ended = [record for record in self._records.all() if self._may_have_ended(record.uid)]
        if not ended or (look := self._runtime.look()) is None:
            return
        gone = self._gone(ended, look, deadline)
        # A force-deleted pod may have started a container while these were looked up.
        if not gone or (now := self._runtime.look()) is None:
            return
        for record in gone:
            if not now.runs(record.uid) and not self._may_start(record.uid, now):
                self._attempt(record.uid, functools.partial(self._free, record))

    def _look_for_over(self, deadline: float = math.inf) -> None:
        """Look which containers run although their pods were deleted by force, or have failed.

        Args:
            deadline: as `free_cards` has it; what is not known then is not said yet.
        """
        if not self._pods.synced:
            return
        ended = [record for record in self._records.all() if self._may_have_ended(record.uid)]
        look = self._runtime.look() if ended else RuntimeLook(time.monotonic(), (), frozenset)
        if look is None:
            return
        running = {
            record.uid: record
            for record in ended
            if look.runs(record.uid) or self._may_start(record.uid, look)
        }
        known = (self._over or frozenset()).intersection(running)
        try:
            others = running.keys() - known
            self._over = known.union(
                [uid for uid in others if self._is_over(running[uid], deadline)]
            )
        except KubeUnavailable as error:
            logger.debug("not known whether pods are over: %s", error)
            self._over = None if self._over is None else known

    def _is_over(self, record: PodRecord, deadline: float) -> bool:
        shown = self._pods.get(record.uid)
        if shown is not None:
            return finished(shown)
        seconds = min(_ASK_SECONDS, deadline - time.monotonic())
        if seconds <= 0:
            raise KubeUnavailable("no time is left to ask")
        try:  # the watch may not show a new pod yet
            return self._pods.is_gone(record.uid, (record.namespace, record.name), seconds)
        except KubeError as error:
            logger.debug("not known whether a pod is over pod_uid=%s: %s", record.uid, error)
            return False

    def _gone(
        self, ended: Iterable[PodRecord], look: RuntimeLook, deadline: float
    ) -> list[PodRecord]:
        """Return those that have ended, by runtime and API server.

        Where the API server is away it won't answer the next question either.
        """
        found = []
        for record in ended:
            try:
                if self._has_ended(record, look, deadline):
                    found.append(record)
                else:
                    self._note(record.uid, "")
            except KubeUnavailable as error:
                logger.warning("ended pods keep their cards for now: %s", error)
                break
            except KubeError as error:
                self._note(record.uid, str(error))
        return found

    def _attempt(self, uid: str, step: Callable[[], None]) -> None:
        """Free what one pod has; a failure delays no other pod."""
        try:
            step()
        except (CheckpointError, LimitsFilesError) as error:
            self._note(uid, str(error))
        else:
            self._note(uid, "")

    def _note(self, uid: str, why: str) -> None:
        """Take note of why something of a pod is left, or of nothing; a failure is logged once."""
        with self._lock:
            before = self._stuck.pop(uid, None)
            if why:
                self.failures += 1
                self._stuck[uid] = why
        if why and before != why:
            logger.warning("something is left of an ended pod pod_uid=%s: %s", uid, why)

    def _forget_others(self, uids: Collection[str]) -> None:
        with self._lock:
            self._stuck = {uid: why for uid, why in self._stuck.items() if uid in uids}

    def _is_orphan(self, uid: str) -> bool:
        return self._records.get(uid) is None and self._may_have_ended(uid)

    def _may_have_ended(self, uid: str) -> bool:
        pod = self._pods.get(uid)
        return pod is None or finished(pod)

    def _has_ended(self, record: PodRecord, look: RuntimeLook, deadline: float) -> bool:
        if look.runs(record.uid) or self._may_start(record.uid, look):
            return False
        shown = self._pods.get(record.uid)
        if shown is not None:
            return finished(shown)  # it may have been absent a moment ago
        # A pod absent from the watch may not be shown yet. Only the API server knows.
        seconds = min(_ASK_SECONDS, deadline - time.monotonic())
        pod = (record.namespace, record.name)
        return seconds > 0 and self._pods.is_gone(record.uid, pod, seconds)

    def _may_start(self, uid: str, look: RuntimeLook) -> bool:
        """Say whether a container of a pod that is over may be in the making.

        The kubelet ends a pod that it shows with its sandbox; one that is gone may get its sandbox
        yet.
        """
        starts = self._records.starts
        is_new = starts.has if self._pods.get(uid) is None else starts.has_since
        return is_new(uid, look.moment) or (starts.has_slow(uid) and look.may_start(uid))

    def _free(self, record: PodRecord) -> None:
        self._records.remove(record.uid)
        logger.info("cards are free again pod=%s/%s", record.namespace, record.name)
