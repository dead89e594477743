"""Finding the container of an Allocate call, within a bounded time.

A pod that was just bound may reach the kubelet before our watch shows it: then the finder waits for
the watch, for at most `WAIT_SECONDS`, asks the API server once, and says that nobody asked.

A pod that the kubelet knows to be deleted or has rejected may look like one that still waits: a
kubelet that has just started keeps its rejections back from the API server until it has gone
through all of its pods, which it doesn't while an Allocate is under way. So when several pods may
be meant, the kubelet's own list of active pods is asked, then what is remembered of pods that have
had their turn; only then the finder waits for the watch, for at most `SETTLE_SECONDS`.
"""

import contextlib
import dataclasses
import logging
import time

from gpustack.adapters.deviceplugin import PluginRefusal
from gpustack.adapters.kube import KubeError, KubeUnavailable
from gpustack.agent.cluster.pods import Pod, PodView, name_of, uid_of
from gpustack.agent.containers.identity import Evidence, Match, Resource, choose, match
from gpustack.agent.containers.records import Records
from gpustack.agent.containers.runtime import KubeletView, RuntimeView, running_names
from gpustack.model.request import BadRequest, ContainerKind, PodRequest
from gpustack.wire.annotations import Keys
from gpustack.wire.pods import container_names, finished, parse_limits
from gpustack.wire.quantities import parse_whole

logger = logging.getLogger(__name__)

WAIT_SECONDS = 2.0  # a watch is milliseconds behind; the kubelet waits for us meanwhile
SETTLE_SECONDS = 1.0
_ASK_SECONDS = 2.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """A pod with a container that doesn't run yet and asks for as many as the call has."""

    pod: Pod
    request: PodRequest
    running: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Every container that a call may mean, and whether the kubelet had a say in it."""

    matches: tuple[Match, ...]
    kubelet_answers: bool

    def is_clear(self, passed: frozenset[str]) -> bool:
        """Say whether waiting can't improve it; without the kubelet's word, several may wait."""
        stay = [
            each for each in self.matches if not each.is_leaving and uid_of(each.pod) not in passed
        ]
        clear = len(self.matches) == 1 or len(stay) == 1 or not self.kubelet_answers
        return bool(self.matches) and clear


class Finder:
    """Puts the evidence about this node's pods together and asks `identity` which one it is."""

    def __init__(
        self,
        *,
        keys: Keys,
        pods: PodView,
        records: Records,
        kubelet: KubeletView,
        runtime: RuntimeView,
    ) -> None:
        self._keys = keys
        self._pods = pods
        self._records = records
        self._kubelet = kubelet
        self._runtime = runtime
        self.epoch = 1  # 0 marks records of an earlier agent
        self._refused: frozenset[str] = frozenset()
        self._passed: frozenset[str] = frozenset()
        self.guesses = 0
        self.ambiguities = 0

    def kubelet_restarted(self) -> None:
        """Take note that another kubelet is calling from now on, before it knows our devices.

        Without devices it rejects every pod that it comes to and that asks for some: the ones that
        it knows by now, and that hold none, have had their turn.
        """
        self.epoch += 1
        self._refused = self._passed = frozenset()
        self._kubelet.kubelet_restarted()
        waiting = self._lacking(self._pods.snapshot()[0])
        self._passed = frozenset(map(uid_of, waiting))

    def _lacking(self, pods: tuple[Pod, ...]) -> list[Pod]:
        """Return the pods that the kubelet knows and that lack devices which they ask for."""
        asked = {uid_of(pod): _asked(self._keys, pod) for pod in pods if not finished(pod)}
        asking = tuple(pod for pod in pods if asked.get(uid_of(pod)))
        held = self._kubelet.active(asking) or {}
        core = self._keys.vcuda_core
        return [
            pod
            for pod in asking
            if (devices := held.get(uid_of(pod))) is not None
            and not all(devices.ids(name, core) for name in asked[uid_of(pod)])
        ]

    def refused(self, pod: Pod, epoch: int) -> None:
        """Take note that the kubelet was told no for this pod: it doesn't ask a second time.

        Until the API server shows the pod as failed, it looks like one that still waits. Another
        kubelet than the one that was told, `epoch`, does ask.
        """
        if epoch == self.epoch:
            self._refused = self._present(self._refused) | {uid_of(pod)}

    def find(self, resource: Resource, count: int, epoch: int) -> Match:
        """Return the container that an Allocate of `count` IDs by the kubelet `epoch` is for.

        Raises:
            PluginRefusal: `NoCandidate` when no pod waits for so many, `ApiServerAway` when that
                can't be known; `BadRequest` when the pod asks for something that doesn't exist.
        """
        started = time.monotonic()
        while True:
            pods, version = self._pods.snapshot()
            found = self._matches(pods, resource, count, epoch)
            seconds = SETTLE_SECONDS if found.matches else WAIT_SECONDS
            if found.is_clear(self._passed):
                break
            if not found.matches and self._bad(pods, resource, count) is not None:
                break
            if not self._pods.wait_for_change(version, started + seconds):
                break
        if all(uid_of(each.pod) in self._passed for each in found.matches):
            # Nobody, or only pods that have had their turn: the one that is meant isn't seen yet.
            found = self._ask_api_server(resource, count, epoch, found)
        return self._chosen(found)

    def _ask_api_server(self, resource: Resource, count: int, epoch: int, known: _Found) -> _Found:
        try:
            self._pods.refresh(_ASK_SECONDS)
        except (KubeError, KubeUnavailable) as error:
            if known.matches:
                return known
            raise PluginRefusal("ApiServerAway", f"no waiting pod is known: {error}") from error
        pods = self._pods.snapshot()[0]
        found = self._matches(pods, resource, count, epoch)
        if not found.matches:
            self._refuse_bad(pods, resource, count, epoch)
            name = resource.full_name(self._keys)
            raise PluginRefusal("NoCandidate", f"no pod of this node waits for {count} {name}")
        return found

    def _matches(self, pods: tuple[Pod, ...], resource: Resource, count: int, epoch: int) -> _Found:
        waiting = self._waiting(pods, resource, count)
        held = self._kubelet.devices(tuple(each.pod for each in waiting)) if waiting else {}
        matches = []
        for each in waiting:
            uid = uid_of(each.pod)
            evidence = Evidence(
                pod=each.pod,
                request=each.request,
                record=self._records.get(uid),
                kubelet_answers=held is not None,
                held=None if held is None else held[uid],
                running=each.running,
                epoch=epoch,
            )
            found = match(self._keys, evidence, resource, count)
            if found is not None:
                matches.append(found)
        return self._active(_Found(matches=tuple(matches), kubelet_answers=held is not None))

    def _active(self, found: _Found) -> _Found:
        """Drop the pods that the kubelet is through with, as far as it says so."""
        if len(found.matches) < 2 or not found.kubelet_answers:
            return found
        active = self._kubelet.active(tuple(each.pod for each in found.matches)) or {}
        left = tuple(each for each in found.matches if active.get(uid_of(each.pod)) is not None)
        return dataclasses.replace(found, matches=left or found.matches)

    def _waiting(self, pods: tuple[Pod, ...], resource: Resource, count: int) -> list[_Waiting]:
        """Return the pods that may be meant; those that run as a whole cost no question more."""
        living = self._runtime.containers()
        found = []
        for pod in pods:
            if finished(pod) or uid_of(pod) in self._refused:
                continue
            request = self._request(pod)
            asked = [] if request is None else [resource.asked(e) for e in request.containers]
            if request is None or count not in asked:
                continue
            running = running_names(pod, living)
            if not all(each.name in running for each in request.containers):
                found.append(_Waiting(pod=pod, request=request, running=running))
        return found

    def _chosen(self, found: _Found) -> Match:
        if not found.kubelet_answers:
            self.guesses += 1
        if len(found.matches) > 1:
            self.ambiguities += 1
        chosen = choose(
            self._keys,
            found.matches,
            passed=self._passed,
            kubelet_answers=found.kubelet_answers,
        )
        others = [each.pod for each in found.matches if each is not chosen]
        if others:
            logger.warning(
                "several pods may be meant, the likeliest is taken pod=%s/%s others=%s",
                *name_of(chosen.pod),
                ["/".join(name_of(pod)) for pod in others],
            )
        if found.kubelet_answers:
            self._passed = self._present(self._passed) | frozenset(map(uid_of, others))
        return chosen

    def _present(self, uids: frozenset[str]) -> frozenset[str]:
        return uids & {uid_of(pod) for pod in self._pods.snapshot()[0]}

    def _request(self, pod: Pod) -> PodRequest | None:
        try:
            return parse_limits(self._keys, pod)
        except BadRequest:
            return None  # see _bad: it takes no part while another pod may be meant

    def _bad(
        self, pods: tuple[Pod, ...], resource: Resource, count: int
    ) -> tuple[Pod, BadRequest] | None:
        """Return a pod that may be meant and whose limits don't exist, and what is wrong there."""
        for pod in pods:
            if finished(pod) or uid_of(pod) in self._refused:
                continue
            try:
                parse_limits(self._keys, pod)
            except BadRequest as error:
                asks = count in _raw_limits(pod, resource.full_name(self._keys))
                if asks and self._is_new(pod):
                    return pod, error
        return None

    def _refuse_bad(
        self, pods: tuple[Pod, ...], resource: Resource, count: int, epoch: int
    ) -> None:
        bad = self._bad(pods, resource, count)
        if bad is not None:
            pod, error = bad
            self.refused(pod, epoch)
            raise PluginRefusal("BadRequest", f"pod {'/'.join(name_of(pod))}: {error}") from error

    def _is_new(self, pod: Pod) -> bool:
        if uid_of(pod) in self._passed:
            return False
        active = self._kubelet.active((pod,))
        return active is None or active[uid_of(pod)] is not None


def _asked(keys: Keys, pod: Pod) -> tuple[str, ...]:
    """Return the names of the containers that keep a card; ordinary init containers do not."""
    try:
        request = parse_limits(keys, pod)
    except BadRequest:
        return container_names(pod)  # whichever it was: one that asks like this gets nothing
    containers = () if request is None else request.containers
    return tuple(each.name for each in containers if each.kind is not ContainerKind.INIT)


def _raw_limits(pod: Pod, resource: str) -> set[int]:
    """Return how many of a resource each container gets, as the kubelet reads its limits."""
    spec = pod.get("spec") or {}
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    found = set()
    for each in containers:
        limits = (each.get("resources") or {}).get("limits") or {}
        with contextlib.suppress(ValueError):  # the kubelet doesn't ask for what is no number
            found.add(parse_whole(limits.get(resource, 0)))
    return found
