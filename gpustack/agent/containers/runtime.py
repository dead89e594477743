"""What the kubelet and the container runtime know about pods, for those who ask about identity.

Both may be silent for a while. `None` then means "nobody can say", which is not "no".
"""

import logging
from collections.abc import Mapping

from gpustack.adapters.cri import CriClient, CriUnavailable, RuntimeContainer
from gpustack.adapters.podresources import (
    PodDevices,
    PodResourcesClient,
    PodResourcesUnavailable,
    PodResourcesUnsupported,
)
from gpustack.agent.cluster.pods import Pod, name_of, uid_of

logger = logging.getLogger(__name__)


class KubeletView:
    """Which device IDs the kubelet gave to a pod.

    `Get` is preferred; where the kubelet has none, `List` is asked, until the kubelet restarts.
    """

    def __init__(self, client: PodResourcesClient) -> None:
        self._client = client
        self._has_get = True
        self.failures = 0

    def kubelet_restarted(self) -> None:
        """Try `Get` again: the new kubelet may be a newer one."""
        self._has_get = True

    def devices(self, pods: tuple[Pod, ...]) -> Mapping[str, PodDevices | None] | None:
        """Return, by UID, what each pod holds; None for a pod that the kubelet doesn't know.

        None instead of the mapping: the kubelet didn't answer.
        """
        try:
            return self._get(pods) if self._has_get else self._list(pods)
        except PodResourcesUnavailable as error:
            self.failures += 1
            logger.warning("kubelet does not say who holds which device: %s", error)
            return None

    def _get(self, pods: tuple[Pod, ...]) -> Mapping[str, PodDevices | None]:
        try:
            return {uid_of(pod): self._client.get(*name_of(pod)) for pod in pods}
        except PodResourcesUnsupported as error:
            logger.info("kubelet has no PodResources Get, using List: %s", error)
            self._has_get = False
            return self._list(pods)

    def _list(self, pods: tuple[Pod, ...]) -> Mapping[str, PodDevices | None]:
        known = {(each.namespace, each.name): each for each in self._client.list()}
        return {uid_of(pod): known.get(name_of(pod)) for pod in pods}


class RuntimeView:
    """Which containers the runtime runs, or has made and not started yet."""

    def __init__(self, client: CriClient) -> None:
        self._client = client
        self.failures = 0

    def containers(self) -> tuple[RuntimeContainer, ...] | None:
        """Return all living containers; None when the runtime doesn't answer."""
        try:
            found = self._client.containers()
        except CriUnavailable as error:
            self.failures += 1
            logger.warning("container runtime does not answer: %s", error)
            return None
        return tuple(each for each in found if each.running or each.created)


def running_names(pod: Pod, living: tuple[RuntimeContainer, ...] | None) -> frozenset[str]:
    """Return the names of a pod's living containers; without the runtime, as its status says.

    The status is older than the truth, in both directions.
    """
    if living is not None:
        return frozenset(each.name for each in living if each.pod_uid == uid_of(pod))
    status = pod.get("status") or {}
    return frozenset(
        each["name"]
        for statuses in ("initContainerStatuses", "containerStatuses")
        for each in status.get(statuses) or ()
        if "running" in (each.get("state") or {})
    )
