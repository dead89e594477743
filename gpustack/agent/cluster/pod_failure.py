"""Failing a pod that can never start, as the kubelet fails one.

The kubelet keeps an Allocate answer for as long as the pod lives, and asks PreStartContainer again
and again. A container whose answer was made for another pod would wait for ever; a pod that has
failed is replaced by its controller.
"""

import datetime
import logging
from collections.abc import Callable

from gpustack.agent.cluster.pods import Pod, name_of, uid_of
from gpustack.agent.cluster.writes import PodWrites
from gpustack.wire.annotations import annotations_of
from gpustack.wire.keys import Keys

logger = logging.getLogger(__name__)


class PodFailure:
    """Queues the end of pods that have the wrong answer; a caller doesn't wait for the write."""

    def __init__(
        self,
        *,
        keys: Keys,
        writes: PodWrites,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._keys = keys
        self._writes = writes
        self._now = now

    def queue(self, pod: Pod, *, reason: str, message: str) -> None:
        """Queue the pod's failure: its phase, and why.

        The kubelet trusts its own status of a pod and would write it over ours, unless another
        field of the pod changes with it: then it looks at the pod anew, finds it failed
        and stops it. So `gpu-assigned` changes too, which has no meaning now. A Job's
        podFailurePolicy may ignore the condition `DisruptionTarget`: the pod isn't to blame.

        Args:
            pod: the pod.
            reason: of its status.
            message: likewise.
        """
        namespace, name = name_of(pod)
        logger.error("pod is failed pod=%s/%s: %s: %s", namespace, name, reason, message)
        assigned = self._keys.gpu_assigned
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        why = {"reason": reason, "message": message}
        condition = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": now, **why}
        self._writes.annotate(
            uid=uid_of(pod),
            namespace=namespace,
            name=name,
            annotations={assigned: None if assigned in annotations_of(pod) else "false"},
            status={"phase": "Failed", **why, "conditions": [condition]},
        )
