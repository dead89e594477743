"""The container of an Allocate call: the call itself doesn't name it.

The kubelet admits one pod at a time and one container after another, init containers first; only
the order of a container's two resources is random. So the call's container is the first one of
its pod that lacks a resource, and the pod is one that the kubelet knows, that still lacks devices,
and whose next container asks for just as many. Device IDs are a check and never a key: the kubelet
may give one out twice.
"""

import dataclasses
import enum
from collections.abc import Container, Iterable, Sequence

from gpustack.adapters.podresources import PodDevices
from gpustack.agent.cluster.pods import Pod, uid_of
from gpustack.agent.containers.allocation_records import ContainerRecord, PodRecord
from gpustack.model.request import ContainerKind, ContainerRequest, PodRequest
from gpustack.wire.annotations import decided_ns
from gpustack.wire.keys import Keys
from gpustack.wire.pods import leaving


class Resource(enum.Enum):
    """The two resources of a container."""

    CORE = "vcuda-core"
    MEMORY = "vcuda-memory"

    def full_name(self, keys: Keys) -> str:
        """Return the name as pods and the kubelet use it."""
        return keys.vcuda_core if self is Resource.CORE else keys.vcuda_memory

    def asked(self, container: ContainerRequest) -> int:
        """Return how many IDs of this resource the container gets."""
        return container.cores if self is Resource.CORE else container.memory_units

    def recorded(self, container: ContainerRecord) -> tuple[str, ...]:
        """Return the IDs that were recorded for the container."""
        return container.core_ids if self is Resource.CORE else container.memory_ids

    def epoch(self, container: ContainerRecord) -> int:
        """Return the epoch of the kubelet that took them."""
        return container.core_epoch if self is Resource.CORE else container.memory_epoch


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The evidence about one pod that the kubelet may be admitting.

    Attributes:
        record: its allocation so far.
        may_come: whether it may hold devices without a record, because the record was lost.
        kubelet_answers: whether the kubelet could be asked.
        held: the devices that a pod of its name holds by the kubelet; None when it knows no pod.
        running: names of its running containers.
        epoch: the kubelet that is calling.
    """

    pod: Pod
    request: PodRequest
    record: PodRecord | None
    may_come: bool
    kubelet_answers: bool
    held: PodDevices | None
    running: frozenset[str]
    epoch: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A container that the call may mean.

    Attributes:
        begun: its pod was given devices already.
        again: it was given this before, by an earlier agent or to an earlier kubelet: that kubelet
            died before it wrote it down, or now means another pod of that name.
        forgotten: the kubelet no longer holds the devices that it took for the container: the pod
            was rejected or deleted halfway.
    """

    pod: Pod
    request: PodRequest
    container: ContainerRequest
    begun: bool
    again: bool
    forgotten: bool

    @property
    def is_leaving(self) -> bool:
        """Whether the pod is being deleted; the kubelet may admit it all the same."""
        return self.forgotten or leaving(self.pod)

    @property
    def may_be_another(self) -> bool:
        """Whether the kubelet may mean a later pod of this name, which the watch lacks yet."""
        return self.is_leaving or self.again


class _Given(enum.Enum):
    """Whether a container was given a resource."""

    NO = enum.auto()
    YES = enum.auto()
    FORGOTTEN = enum.auto()  # the agent gave it, and the kubelet no longer holds it


def admission_order(containers: Iterable[ContainerRequest]) -> list[ContainerRequest]:
    """Return containers as the kubelet admits them: init containers first, each list in order."""
    return sorted(containers, key=lambda each: (each.kind is ContainerKind.APP, each.index))


def match(keys: Keys, evidence: Evidence, resource: Resource, count: int) -> Match | None:
    """Return the container of this pod that an Allocate of `count` IDs may mean, or None."""
    if evidence.kubelet_answers and evidence.held is None:
        return None  # the kubelet hasn't begun with this pod
    if evidence.record is None and not evidence.may_come and _holds_any(keys, evidence.held):
        return None  # neither: it still answers for the pod that had this name before
    before: set[_Given] = set()
    for container in admission_order(evidence.request.containers):
        given = {
            each: _given(keys, evidence, container, each)
            for each in Resource
            if each.asked(container)
        }
        before.update(given.values())
        if _Given.NO not in given.values():
            continue
        if given.get(resource) is not _Given.NO or resource.asked(container) != count:
            return None
        begun = _Given.YES in before
        return Match(
            pod=evidence.pod,
            request=evidence.request,
            container=container,
            begun=begun,
            again=not begun and _was_given(evidence, container, resource),
            forgotten=_Given.FORGOTTEN in before,
        )
    return None


def _holds_any(keys: Keys, held: PodDevices | None) -> bool:
    return held is not None and any(
        held.ids(name, resource.full_name(keys))
        for name in held.containers
        for resource in Resource
    )


def is_complete(record: PodRecord | None, request: PodRequest, epoch: int) -> bool:
    """Say whether the kubelet `epoch` took all that the pod asks for: no kubelet asks twice."""
    if record is None:
        return False
    return all(
        (recorded := record.container(asked.name)) is not None
        and resource.recorded(recorded)
        and resource.epoch(recorded) == epoch
        for asked in request.containers
        for resource in Resource
        if resource.asked(asked)
    )


def has_begun(record: PodRecord | None, epoch: int) -> bool:
    """Say whether the kubelet `epoch` took anything for the pod."""
    return record is not None and any(
        resource.recorded(each) and resource.epoch(each) == epoch
        for each in record.containers
        for resource in Resource
    )


def _was_given(evidence: Evidence, container: ContainerRequest, resource: Resource) -> bool:
    recorded = evidence.record.container(container.name) if evidence.record else None
    return recorded is not None and bool(resource.recorded(recorded))


def _given(
    keys: Keys, evidence: Evidence, container: ContainerRequest, resource: Resource
) -> _Given:
    if container.name in evidence.running:
        return _Given.YES
    recorded = evidence.record.container(container.name) if evidence.record else None
    ids = resource.recorded(recorded) if recorded else ()
    if evidence.held is None:
        return _Given.YES if ids else _Given.NO
    # The kubelet decides: it may have forgotten the devices when it died during admission, and it
    # knows them when the agent lost its checkpoint.
    if evidence.held.ids(container.name, resource.full_name(keys)):
        return _Given.YES
    is_init = container.kind is ContainerKind.INIT
    # Its answer leaves out ordinary init containers that it didn't write down, but has the
    # containers that it admits after them. Sidecars before them prove nothing.
    if is_init and any(map(evidence.held.containers.get, _after(evidence.pod, container))):
        return _Given.YES
    if ids and recorded is not None and resource.epoch(recorded) == evidence.epoch:
        # No kubelet asks twice. It writes an init container's devices down at the container's end.
        return _Given.YES if is_init else _Given.FORGOTTEN
    return _Given.NO


def _after(pod: Pod, container: ContainerRequest) -> list[str]:
    """Return the names of the containers that are admitted after an init container."""
    spec = pod["spec"]
    later = (*spec["initContainers"][container.index + 1 :], *spec["containers"])
    return [str(each["name"]) for each in later]


def choose(
    keys: Keys, matches: Sequence[Match], *, passed: Container[str], kubelet_answers: bool
) -> Match:
    """Return the likeliest match: one that is begun, else one without evidence against it.

    The kubelet learns of a pod and admits it before it looks at the next one. So of the pods that
    it knows and that hold no device, all but the last have had their turn: it rejected them, and
    the API server doesn't show it yet. A kubelet that has just started goes by creation, a running
    one by arrival. Where it can't be asked, any pod may still wait, and the oldest decision is
    taken (the original's rule); pods without a readable time come last. `passed` are the UIDs of
    pods that have had their turn for certain.
    """

    def doubts(found: Match) -> tuple[bool, bool, bool]:
        return not found.begun, found.is_leaving, uid_of(found.pod) in passed

    fewest = min(map(doubts, matches))
    likely = [found for found in matches if doubts(found) == fewest]
    if kubelet_answers:
        return max(likely, key=lambda found: (_created(found), *_decided(keys, found)))
    return min(likely, key=lambda found: (not decided_ns(keys, found.pod), *_decided(keys, found)))


def _created(found: Match) -> str:
    """Return when the pod was made: RFC 3339 with whole seconds, so texts compare as times do."""
    return str(found.pod["metadata"].get("creationTimestamp") or "")


def _decided(keys: Keys, found: Match) -> tuple[int, str]:
    """Return the decision's time, Unix nanoseconds, and the UID, which makes the order total."""
    return decided_ns(keys, found.pod), uid_of(found.pod)
