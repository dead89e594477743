"""Ending the pod of a container that goes past its limits."""

import logging

from gpustack.agent.activity.shares import Share
from gpustack.agent.cluster.pods import PodView, name_of, uid_of
from gpustack.agent.cluster.writes import PodWrites
from gpustack.wire.pods import is_static

logger = logging.getLogger(__name__)


class PodKill:
    """Deletes pods by their UID.

    A deleted pod keeps its cards and its quota until its kubelet has ended it. One that is only
    failed counts in no quota at once, and runs on for as long as its
    `terminationGracePeriodSeconds` says. An eviction waits for budgets, and puts a condition on the
    pod that lets a Job make it again and again (k8s.io/kubernetes 1.34
    pkg/registry/core/pod/storage/eviction.go).

    Args:
        pods: this node's.
        writes: queues the deletion.
    """

    def __init__(self, pods: PodView, writes: PodWrites) -> None:
        self._pods = pods
        self._writes = writes

    def end(self, share: Share, reason: str, message: str) -> bool:
        """Queue the deletion of a container's pod; says whether it could.

        A static pod can't be deleted: the kubelet makes its mirror anew, and it runs on. One that
        the API server doesn't show yet is deleted at a later look.
        """
        pod = self._pods.get(share.owner[0])
        if pod is None or is_static(pod):
            return False
        namespace, name = name_of(pod)
        logger.error("pod is deleted pod=%s/%s: %s: %s", namespace, name, reason, message)
        self._writes.delete(uid=uid_of(pod), namespace=namespace, name=name)
        return True
