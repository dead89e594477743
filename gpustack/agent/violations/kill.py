"""Failing the pod of a container that goes past its limits."""

from gpustack.agent.activity.shares import Share
from gpustack.agent.cluster.pod_failure import PodFailure
from gpustack.agent.cluster.pods import PodView
from gpustack.wire.pods import is_static


class PodKill:
    """Fails pods by their UID.

    Args:
        pods: this node's.
        failure: queues the write.
    """

    def __init__(self, pods: PodView, failure: PodFailure) -> None:
        self._pods = pods
        self._failure = failure

    def fail(self, share: Share, reason: str, message: str) -> bool:
        """Queue the failure of a container's pod; says whether it could.

        A static pod can't be failed: the kubelet doesn't read the status of its mirror. One that
        the API server doesn't show yet is failed at a later look.
        """
        pod = self._pods.get(share.owner[0])
        if pod is None or is_static(pod):
            return False
        self._failure.queue(pod, reason=reason, message=message, is_to_blame=True)
        return True
