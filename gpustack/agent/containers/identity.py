"""Which container the kubelet means when it calls Allocate: the call doesn't say.

The kubelet admits one pod at a time and one container after another, init containers first; only
the order of a container's two resources is random. So the container it means is the first one of
its pod that lacks a resource, and the pod is one that the kubelet knows, that still lacks devices,
and whose next container asks for just as many. Device IDs are a check and never a key: the kubelet
may hand one out twice.
"""

import dataclasses
import enum
from collections.abc import Iterable, Sequence

from gpustack.adapters.podresources import PodDevices
from gpustack.agent.cluster.pods import Pod, uid_of
from gpustack.agent.containers.records import ContainerRecord, PodRecord
from gpustack.model.request import ContainerKind, ContainerRequest, PodRequest
from gpustack.wire.annotations import Keys, annotations_of


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
        """Return which kubelet took them."""
        return container.core_epoch if self is Resource.CORE else container.memory_epoch


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known about one pod that may be the one being admitted.

    Attributes:
        record: what we gave it so far.
        kubelet_answers: whether the kubelet could be asked.
        held: what the kubelet says it holds; None when it doesn't know the pod.
        running: names of its running containers.
        epoch: the kubelet that is calling.
    """

    pod: Pod
    request: PodRequest
    record: PodRecord | None
    kubelet_answers: bool
    held: PodDevices | None
    running: frozenset[str]
    epoch: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A container that the call may mean; `begun` when its pod was given something already."""

    pod: Pod
    request: PodRequest
    container: ContainerRequest
    begun: bool


def admission_order(containers: Iterable[ContainerRequest]) -> list[ContainerRequest]:
    """Return containers as the kubelet admits them: init containers first, each list in order."""
    return sorted(containers, key=lambda each: (each.kind is ContainerKind.APP, each.index))


def match(keys: Keys, evidence: Evidence, resource: Resource, count: int) -> Match | None:
    """Return the container of this pod that an Allocate of `count` IDs may mean, or None."""
    if evidence.kubelet_answers and evidence.held is None:
        return None  # the kubelet hasn't begun with this pod
    begun = False
    for container in admission_order(evidence.request.containers):
        wanted = [each for each in Resource if each.asked(container)]
        done = [each for each in wanted if _is_done(keys, evidence, container, each)]
        begun = begun or bool(done)
        if len(done) == len(wanted):
            continue
        if resource in done or resource.asked(container) != count:
            return None
        return Match(pod=evidence.pod, request=evidence.request, container=container, begun=begun)
    return None


def _is_done(
    keys: Keys, evidence: Evidence, container: ContainerRequest, resource: Resource
) -> bool:
    if container.name in evidence.running:
        return True
    recorded = evidence.record.container(container.name) if evidence.record else None
    ids = resource.recorded(recorded) if recorded else ()
    if evidence.held is None:
        return bool(ids)
    if ids and recorded is not None and resource.epoch(recorded) == evidence.epoch:
        return True  # no kubelet asks twice, and it forgets a pod that is deleted before it runs
    if container.kind is not ContainerKind.INIT:
        # The kubelet's word: it may have forgotten what we gave when it died during admission,
        # and it knows what we gave when we lost our checkpoint.
        return bool(evidence.held.ids(container.name, resource.full_name(keys)))
    # Ordinary init containers are not in its answer, but whatever is admitted after them is.
    # What sidecars before them hold says nothing.
    return any(evidence.held.containers.get(name) for name in _after(evidence.pod, container))


def _after(pod: Pod, container: ContainerRequest) -> list[str]:
    """Return the names of the containers that are admitted after an init container."""
    spec = pod["spec"]
    later = (*spec["initContainers"][container.index + 1 :], *spec["containers"])
    return [str(each["name"]) for each in later]


def choose(keys: Keys, matches: Sequence[Match]) -> Match:
    """Return the likeliest match: one that is begun, else the oldest decision, else pod.

    With the kubelet's answer there is hardly ever more than one: this is the original's rule for
    the time in which the kubelet can't be asked.
    """

    def order(found: Match) -> tuple[bool, bool, int, str, str]:
        metadata = found.pod["metadata"]
        decided = annotations_of(found.pod).get(keys.predicate_time, "")
        time_ns = int(decided) if decided.isascii() and decided.isdigit() else 0
        created = str(metadata.get("creationTimestamp") or "")
        deleted = "deletionTimestamp" in metadata
        return not found.begun, deleted, time_ns, created, uid_of(found.pod)

    return min(matches, key=order)
