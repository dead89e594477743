"""An Allocate call, the pods that wait, and the containers that it may mean."""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterable, Sequence

from gpustack.adapters.deviceplugin import PluginRefusal
from gpustack.adapters.podresources import PodDevices, PodResourcesLimited
from gpustack.agent.cluster.pods import Pod, name_of, uid_of
from gpustack.agent.containers.allocation_records import PodRecord
from gpustack.agent.identification.pod_matching import Match, Resource
from gpustack.agent.identification.runtime import KubeletView
from gpustack.model.request import BadRequest, ContainerKind, PodRequest
from gpustack.wire.keys import Keys
from gpustack.wire.kube.quantities import parse_whole
from gpustack.wire.pods import container_names, finished, parse_limits

logger = logging.getLogger(__name__)

_RESTART_SECONDS = 1.0  # the kubelet's answer may take, before we register with one that restarted


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AllocateCall:
    """An Allocate of these IDs by the kubelet `epoch`; `until` bounds the wait for its answer."""

    resource: Resource
    ids: frozenset[str]
    epoch: int
    until: float

    @classmethod
    def of(
        cls, resource: Resource, ids: Sequence[str], epoch: int, *, seconds: float
    ) -> "AllocateCall":
        """Return a call that waits no longer than `seconds` from now."""
        until = time.monotonic() + seconds
        return cls(resource=resource, ids=frozenset(ids), epoch=epoch, until=until)

    @property
    def count(self) -> int:
        """How many IDs it has."""
        return len(self.ids)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCall:
    """The container of the kubelet's next Allocate, if it is of the same IDs."""

    call: AllocateCall
    match: Match

    def means(self, call: AllocateCall) -> bool:
        """Say whether this is that call."""
        return dataclasses.replace(self.call, until=call.until) == call


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPod:
    """A pod with a container that doesn't run yet and asks for as many IDs as the call has."""

    pod: Pod
    request: PodRequest
    running: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Every container that a call may mean, and whether the kubelet narrowed them down."""

    matches: tuple[Match, ...]
    kubelet_answers: bool

    def is_sure(self, passed: frozenset[str]) -> bool:
        """Say whether the call means a visible pod: neither a past one nor the next of its name."""
        return any(
            not each.may_be_another and uid_of(each.pod) not in passed for each in self.matches
        )

    def is_clear(self, passed: frozenset[str]) -> bool:
        """Say whether this is final; without the kubelet's answer, several pods may wait."""
        stay = [
            each for each in self.matches if not each.is_leaving and uid_of(each.pod) not in passed
        ]
        clear = len(self.matches) == 1 or len(stay) == 1 or not self.kubelet_answers
        return bool(self.matches) and clear


def lasting(keys: Keys, pod: Pod) -> tuple[str, ...]:
    """Return the names of the containers that keep a card; ordinary init containers do not."""
    try:
        request = parse_limits(keys, pod)
    except BadRequest:
        return container_names(pod)  # all of them: a pod with such limits gets no card
    containers = () if request is None else request.containers
    return tuple(each.name for each in containers if each.kind is not ContainerKind.INIT)


def lacking(keys: Keys, kubelet: KubeletView, pods: tuple[Pod, ...]) -> list[Pod]:
    """Return the pods that the kubelet knows and that lack devices which they ask for."""
    asked = {uid_of(each): lasting(keys, each) for each in pods if not finished(each)}
    asking = tuple(pod for pod in pods if asked.get(uid_of(pod)))
    try:
        held = kubelet.active(asking, time.monotonic() + _RESTART_SECONDS) or {}
    except PodResourcesLimited as error:
        logger.warning("not known which pods have had their turn: %s", error)
        held = {}
    return [
        pod
        for pod in asking
        if (devices := held.get(uid_of(pod))) is not None
        and not all(devices.ids(name, keys.vcuda_core) for name in asked[uid_of(pod)])
    ]


def is_of_namesake(records: Iterable[PodRecord], pod: Pod, held: PodDevices | None) -> bool:
    """Say whether the kubelet's answer for a pod's name is about another one, with a record."""
    return held is not None and any(
        (record.namespace, record.name) == name_of(pod)
        and record.uid != uid_of(pod)
        and not ids.isdisjoint((*container.core_ids, *container.memory_ids))
        for record in records
        for container in record.containers
        for ids in held.containers.get(container.name, {}).values()
    )


def no_candidate(count: int, resource: str, hidden: Sequence[str]) -> PluginRefusal:
    """Refuse a call that no pod waits for.

    Args:
        count: how many IDs it has.
        resource: of this.
        hidden: pods that only the kubelet knows.
    """
    text = f"no pod of this node waits for {count} {resource}"
    if hidden:
        text += f"; the API server doesn't show {', '.join(hidden)}, which the kubelet knows"
        text += ": a static pod gets cards only once its mirror there has a decision"
    return PluginRefusal("NoCandidate", text)


def raw_limits(pod: Pod, resource: str) -> set[int]:
    """Return how many of a resource each container gets, as the kubelet reads its limits."""
    spec = pod.get("spec") or {}
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    found = set()
    for each in containers:
        limits = (each.get("resources") or {}).get("limits") or {}
        with contextlib.suppress(ValueError):  # the kubelet asks only for numbers
            found.add(parse_whole(limits.get(resource, 0)))
    return found
