"""Which containers a PreStartContainer call is about, and whether the kubelet agrees.

The call names device IDs only. They are looked up in the records and then compared with what the
kubelet says it gave to that very pod, and with the answer that it keeps for it: Allocate had to
infer the pod, here the inference is checked. Where it was wrong, the kubelet keeps an answer that
was made for another pod, and nothing can take it back: the pod is failed, so that its controller
makes another.
"""

import logging
from collections.abc import Callable, Sequence

from gpustack.adapters.deviceplugin import PluginRefusal
from gpustack.agent.cluster.pods import Pod, PodView, name_of, uid_of
from gpustack.agent.containers import response
from gpustack.agent.containers.folders import ContainerFolders
from gpustack.agent.containers.records import ContainerRecord, PodRecord, Records
from gpustack.agent.containers.rejection import Rejection
from gpustack.agent.containers.runtime import KubeletView
from gpustack.agent.kubelet.checkpoint import Given
from gpustack.model.request import ContainerKind
from gpustack.wire.annotations import Keys
from gpustack.wire.pods import finished

logger = logging.getLogger(__name__)

_CURE = "the pod is failed, its controller makes another"


class Pairing:
    """Compares records with the kubelet's own.

    Args:
        may_come: whether the record of a pod (by UID) may still be taken up: its absence proves
            nothing then.
    """

    def __init__(
        self,
        *,
        keys: Keys,
        pods: PodView,
        records: Records,
        kubelet: KubeletView,
        folders: ContainerFolders,
        rejection: Rejection,
        may_come: Callable[[str], bool],
    ) -> None:
        self._keys = keys
        self._pods = pods
        self._records = records
        self._kubelet = kubelet
        self._folders = folders
        self._rejection = rejection
        self._may_come = may_come
        self.mismatches = 0

    def of(self, ids: Sequence[str]) -> list[tuple[PodRecord, ContainerRecord]]:
        """Return the containers that hold exactly these `vcuda-core` IDs.

        More than one when an init container handed its IDs on to a container of its pod; what the
        caller does for them is then right for either.

        Raises:
            PluginRefusal: `NotAllocated`, or `PairingMismatch` when the kubelet says that the
                IDs belong to another container. The pod that the kubelet means is failed then.
        """
        wanted = frozenset(ids)
        self._refuse_mistaken(wanted)
        held = [
            (record, container)
            for record in self._records.all()
            for container in record.containers
            if frozenset(container.core_ids) == wanted
        ]
        agreed = [pair for pair in held if self._agrees(*pair, wanted)]
        if agreed:
            return agreed
        owners = [pod for pod in self._owners(wanted) if not self._may_come(uid_of(pod))]
        if not held:
            problem = "no container was given these vcuda-core devices"
            raise self._refused("NotAllocated", problem, owners)
        self.mismatches += 1
        names = ", ".join(f"{record.namespace}/{record.name}" for record, _ in held)
        problem = f"the kubelet holds the devices of {names} for another pod"
        raise self._refused("PairingMismatch", problem, owners)

    def _refuse_mistaken(self, ids: frozenset[str]) -> None:
        """Refuse the start when a container with these devices has another container's answer."""
        given = self._kubelet.given(self._keys.vcuda_core, ids)
        mistaken = [pod for each in given if (pod := self._mistaken(each)) is not None]
        if mistaken:
            self.mismatches += 1
            problem = "the kubelet keeps what was given to another container"
            raise self._refused("PairingMismatch", problem, mistaken)

    def _mistaken(self, given: Given) -> Pod | None:
        """Return the pod when what the kubelet keeps for its container isn't the container's.

        An answer of the original's manager says less, and what it doesn't say isn't wrong.
        """
        pod, record = self._pods.get(given.pod_uid), self._records.get(given.pod_uid)
        container = None if record is None else record.container(given.container)
        if pod is None or finished(pod) or container is None:
            return None
        folder = self._folders.path(given.pod_uid, given.container)
        is_own = given.mounts.get(response.LIMITS_PATH) in {None, str(folder / "limits")}
        cards = given.annotations.get(self._keys.vcuda_device)
        has_own_cards = cards in {None, response.cards(container.placement)}
        return None if is_own and has_own_cards else pod

    def _agrees(self, record: PodRecord, container: ContainerRecord, ids: frozenset[str]) -> bool:
        pod = self._pods.get(record.uid) or _pod(record)
        answer = self._kubelet.devices((pod,))
        if answer is None:
            logger.warning("pairing not verified pod=%s/%s", record.namespace, record.name)
            return True
        devices = answer[record.uid]
        if devices is None:
            return False
        is_init = container.placement.kind is ContainerKind.INIT
        if is_init and container.name not in devices.containers:
            # The kubelet doesn't list ordinary init containers. Whoever reuses their devices is of
            # the same pod.
            return all(uid_of(pod) == record.uid for pod in self._owners(ids))
        return devices.ids(container.name, self._keys.vcuda_core) == ids

    def _refused(self, code: str, problem: str, pods: Sequence[Pod]) -> PluginRefusal:
        """Fail these pods; return what the kubelet is told."""
        if not pods:
            return PluginRefusal(code, problem)
        for pod in pods:
            self._rejection.queue(pod, reason=code, message=problem)
        names = ", ".join("/".join(name_of(pod)) for pod in pods)
        return PluginRefusal(code, f"{problem}, {names}: {_CURE}")

    def _owners(self, ids: frozenset[str]) -> list[Pod]:
        pods = tuple(pod for pod in self._pods.snapshot()[0] if not finished(pod))
        held = self._kubelet.active(pods) or {}
        return [
            pod
            for pod in pods
            if (devices := held.get(uid_of(pod))) is not None
            and any(devices.ids(name, self._keys.vcuda_core) == ids for name in devices.containers)
        ]


def _pod(record: PodRecord) -> Pod:
    """Return what the kubelet is asked by, for a pod that the watch has lost meanwhile."""
    return {"metadata": {"uid": record.uid, "namespace": record.namespace, "name": record.name}}
