"""The kubelet's and the container runtime's knowledge of pods, for their identification.

Both may be silent for a while. `None` then means "unknown", which is not "no".
"""

import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from gpustack.adapters.cri import CriClient, CriUnavailable, RuntimeContainer
from gpustack.adapters.podresources import (
    PodDevices,
    PodResourcesClient,
    PodResourcesLimited,
    PodResourcesUnavailable,
    PodResourcesUnsupported,
)
from gpustack.agent.cluster.pods import Pod, name_of, uid_of
from gpustack.agent.kubelet.checkpoint import (
    Given,
    KubeletCheckpoint,
    KubeletCheckpointError,
    KubeletCheckpointMissing,
)

logger = logging.getLogger(__name__)


Answer = TypeVar("Answer")
Held = Mapping[str, PodDevices | None]
Written = Mapping[str, Mapping[str, Mapping[str, frozenset[str]]]]
"""Device IDs by pod's UID, container and resource."""

_Ask = Callable[[tuple[Pod, ...], float | None], Held]

_FEW = 4  # more pods than these take one call of the kubelet: its rate limit counts calls


class KubeletView:
    """The device IDs that the kubelet gave to a pod.

    `Get` is preferred for a few pods; where the kubelet lacks it, `List` is called, until the
    kubelet restarts. Both go by namespace and name: only the kubelet's checkpoint has the UID.
    Both answers leave out ordinary init containers; the checkpoint has them.

    Each call is made again while the kubelet's rate limit refuses it, until `deadline`
    (monotonic seconds), and then raises `PodResourcesLimited`: that is no silence.

    Attributes:
        checkpoint: the kubelet's.
        restarts: of the kubelet, as `kubelet_restarted` has counted them.
        failures: questions that it did not answer.
    """

    def __init__(self, client: PodResourcesClient, checkpoint: KubeletCheckpoint) -> None:
        self._client = client
        self.checkpoint = checkpoint
        self._has_get = True
        self.restarts = 0
        self.failures = 0

    def kubelet_restarted(self) -> None:
        """Try `Get` again: the new kubelet may be a newer one."""
        self.restarts += 1
        self._has_get = True

    def devices(self, pods: tuple[Pod, ...], deadline: float | None = None) -> Held | None:
        """Return, by UID, the devices of each pod; None for a pod that the kubelet doesn't know.

        None instead of the mapping: the kubelet didn't answer.
        """
        by_get = self._has_get and len(pods) <= _FEW
        return self._asked(pods, self._get if by_get else self._list, deadline)

    def active(self, pods: tuple[Pod, ...], deadline: float | None = None) -> Held | None:
        """Return the same by the kubelet's `List`.

        Since 1.34 it leaves out rejected and ended pods, which the API server may show as waiting
        for ten seconds more; `Get` has them.
        """
        return self._asked(pods, self._list, deadline)

    def held(self, pods: tuple[Pod, ...], deadline: float) -> Held | None:
        """Return, by UID, the devices that the kubelet holds for these pods; a pod may be absent.

        Its checkpoint goes by UID, and a look there costs it nothing. Where that can't be used,
        PodResources is asked for the pods of those names: once for all, since Allocate asks by the
        same rate limit. None: neither answers.
        """
        if not pods:
            return {}
        written = self.written()
        if written is None:
            try:
                return self.devices(pods, deadline)
            except PodResourcesLimited as error:
                logger.warning("the devices of %d pods are not known: %s", len(pods), error)
                return None
        return {
            uid_of(pod): PodDevices(
                namespace=name_of(pod)[0], name=name_of(pod)[1], containers=containers
            )
            for pod in pods
            if (containers := written.get(uid_of(pod))) is not None
        }

    def hidden(self, pods: tuple[Pod, ...], deadline: float) -> tuple[str, ...]:
        """Return the pods, by NAMESPACE/NAME, that the kubelet's `List` has beside these."""
        try:
            listed = self._client.list(deadline=deadline)
        except (PodResourcesUnavailable, PodResourcesLimited) as error:
            logger.debug("not known whether the kubelet has other pods: %s", error)
            return ()
        known = {(each.namespace, each.name) for each in listed}
        return tuple(sorted("/".join(each) for each in known.difference(map(name_of, pods))))

    def given(self, resource: str, ids: frozenset[str]) -> list[Given]:
        """Return the containers with exactly these devices, and their answers, by the checkpoint.

        Raises:
            KubeletCheckpointError: the kubelet's checkpoint can't be used.
        """
        written = self.checkpoint.given()
        return [each for each in written if (each.resource, each.ids) == (resource, ids)]

    def written(self) -> Written | None:
        """Return all devices of the checkpoint; None when it can't be used."""
        try:
            written = self.checkpoint.given()
        except KubeletCheckpointError as error:
            is_new = isinstance(error, KubeletCheckpointMissing)
            logger.log(logging.DEBUG if is_new else logging.WARNING, "not known: %s", error)
            return None
        found: dict[str, dict[str, dict[str, frozenset[str]]]] = {}
        for each in written:
            pod = found.setdefault(each.pod_uid, {})
            pod.setdefault(each.container, {})[each.resource] = each.ids
        return found

    def _asked(self, pods: tuple[Pod, ...], ask: _Ask, deadline: float | None) -> Held | None:
        if not pods:
            return {}
        try:
            held = ask(pods, deadline)
        except PodResourcesUnavailable as error:
            self.failures += 1
            logger.warning("kubelet does not say which pod holds which device: %s", error)
            return None
        with_init = [pod for pod in pods if held[uid_of(pod)] and _ordinary_init(pod)]
        return {**held, **self._completed(with_init, held)} if with_init else held

    def _completed(self, pods: list[Pod], held: Held) -> Held:
        written = self.written() or {}
        completed = {}
        for pod in pods:
            own, ordinary = written.get(uid_of(pod), {}), _ordinary_init(pod)
            init = {name: own[name] for name in own if name in ordinary}
            if (devices := held[uid_of(pod)]) is not None:
                completed[uid_of(pod)] = dataclasses.replace(
                    devices, containers={**init, **devices.containers}
                )
        return completed

    def _get(self, pods: tuple[Pod, ...], deadline: float | None) -> Held:
        try:
            return {uid_of(pod): self._client.get(*name_of(pod), deadline=deadline) for pod in pods}
        except PodResourcesUnsupported as error:
            logger.info("kubelet has no PodResources Get, using List: %s", error)
            self._has_get = False
            return self._list(pods, deadline)

    def _list(self, pods: tuple[Pod, ...], deadline: float | None) -> Held:
        listed = self._client.list(frozenset(map(name_of, pods)), deadline=deadline)
        known = {(each.namespace, each.name): each for each in listed}
        return {uid_of(pod): known.get(name_of(pod)) for pod in pods}


def _ordinary_init(pod: Pod) -> list[str]:
    """Return the names of the init containers that end before the others start."""
    init = (pod.get("spec") or {}).get("initContainers") or ()
    return [str(each["name"]) for each in init if each.get("restartPolicy") != "Always"]


class RuntimeView:
    """The containers that the runtime runs, or has made and not started yet.

    Attributes:
        endpoint: its socket.
        failures: calls that it did not answer.
        problem: why it did not answer the last one; empty when it did.
    """

    def __init__(self, client: CriClient) -> None:
        self._client = client
        self.endpoint = client.endpoint
        self.failures = 0
        self.problem = ""

    def containers(self) -> tuple[RuntimeContainer, ...] | None:
        """Return all living containers; None when the runtime doesn't answer."""
        found = self._ask(self._client.containers)
        if found is None:
            return None
        return tuple(each for each in found if each.running or each.created)

    def names(self) -> Mapping[str, Collection[str]] | None:
        """Return the names of all living containers by their pod's UID; None as above."""
        living = self.containers()
        if living is None:
            return None
        found: dict[str, list[str]] = {}
        for each in living:
            found.setdefault(each.pod_uid, []).append(each.name)
        return found

    def look(self) -> "RuntimeLook | None":
        """Return what runs now; None when the runtime doesn't answer."""
        moment, living = time.monotonic(), self.containers()
        ready = functools.cache(lambda: self._ask(self._client.ready_pods))
        return None if living is None else RuntimeLook(moment, living, ready)

    def may_run(self, pod_uid: str, container: str) -> bool:
        """Say whether a container runs, or may while the runtime is silent."""
        living = self.containers()
        return living is None or any(
            each.running and (each.pod_uid, each.name) == (pod_uid, container) for each in living
        )

    def _ask(self, question: Callable[[], Answer]) -> Answer | None:
        try:
            answer = question()
        except CriUnavailable as error:
            self.failures += 1
            self.problem = str(error)
            logger.warning("container runtime does not answer: %s", error)
            return None
        self.problem = ""
        return answer


class RuntimeLook:
    """What the runtime has at one moment; whatever asks, each list is asked for once.

    Args:
        moment: before it was asked, monotonic seconds.
        living: its containers.
        ready: returns the UIDs of the pods with a ready sandbox; None while it is silent.
    """

    def __init__(
        self,
        moment: float,
        living: tuple[RuntimeContainer, ...],
        ready: Callable[[], frozenset[str] | None],
    ) -> None:
        self.moment = moment
        self._running = frozenset(each.pod_uid for each in living if each.running)
        self._ready = ready

    def runs(self, pod_uid: str) -> bool:
        """Say whether a container of a pod runs; one of an ended pod that is made never will."""
        return pod_uid in self._running

    def may_start(self, pod_uid: str) -> bool:
        """Say whether a pod has a ready sandbox, or may while the runtime is silent."""
        ready = self._ready()
        return ready is None or pod_uid in ready


def running_names(pod: Pod, living: Mapping[str, Collection[str]] | None) -> frozenset[str]:
    """Return the names of a pod's living containers; without the runtime, as its status says.

    The status is older than the truth, in both directions.
    """
    if living is not None:
        return frozenset(living.get(uid_of(pod), ()))
    status = pod.get("status") or {}
    return frozenset(
        each["name"]
        for statuses in ("initContainerStatuses", "containerStatuses")
        for each in status.get(statuses) or ()
        if "running" in (each.get("state") or {})
    )
