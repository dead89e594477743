"""Finding the container of an Allocate call, within a bounded time.

A pod that was just bound may reach the kubelet before our watch shows it: then the finder waits for
the watch, for at most `WAIT_SECONDS`, asks the API server once, and says that nobody asked. A pod
that the kubelet knows to be deleted or has rejected may look like one that still waits until our
watch shows it: when several pods may be meant, the finder waits for at most `SETTLE_SECONDS`.
"""

import dataclasses
import logging
import time

from gpustack.adapters.deviceplugin import PluginRefusal
from gpustack.adapters.kube import KubeError, KubeUnavailable
from gpustack.agent.cluster.pods import Pod, PodView, name_of, uid_of
from gpustack.agent.containers.identity import Evidence, Match, Resource, choose, match
from gpustack.agent.containers.records import Records
from gpustack.agent.containers.runtime import KubeletView, RuntimeView, running_names
from gpustack.model.request import BadRequest, PodRequest
from gpustack.wire.annotations import Keys
from gpustack.wire.pods import finished, parse_request

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

    @property
    def is_clear(self) -> bool:
        """Whether waiting can't improve it; without the kubelet's word, several may well wait."""
        stay = [each for each in self.matches if "deletionTimestamp" not in each.pod["metadata"]]
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
        self.guesses = 0
        self.ambiguities = 0

    def kubelet_restarted(self) -> None:
        """Take note that another kubelet is calling from now on."""
        self.epoch += 1
        self._refused = frozenset()
        self._kubelet.kubelet_restarted()

    def refused(self, pod: Pod) -> None:
        """Take note that the kubelet was told no for this pod: it doesn't ask a second time.

        Until the API server shows the pod as failed, it looks like one that still waits.
        """
        known = {uid_of(each) for each in self._pods.snapshot()[0]}
        self._refused = (self._refused & known) | {uid_of(pod)}

    def find(self, resource: Resource, count: int) -> Match:
        """Return the container that an Allocate of `count` IDs is for.

        Raises:
            PluginRefusal: `NoCandidate` when no pod waits for so many, `ApiServerAway` when that
                can't be known; `BadRequest` when the pod asks for something that doesn't exist.
        """
        started = time.monotonic()
        while True:
            pods, version = self._pods.snapshot()
            found = self._matches(pods, resource, count)
            seconds = SETTLE_SECONDS if found.matches else WAIT_SECONDS
            if found.is_clear or not self._pods.wait_for_change(version, started + seconds):
                break
        if not found.matches:
            found = self._ask_api_server(resource, count)
        return self._chosen(found)

    def _ask_api_server(self, resource: Resource, count: int) -> _Found:
        try:
            self._pods.refresh(_ASK_SECONDS)
        except (KubeError, KubeUnavailable) as error:
            raise PluginRefusal("ApiServerAway", f"no waiting pod is known: {error}") from error
        found = self._matches(self._pods.snapshot()[0], resource, count)
        if not found.matches:
            name = resource.full_name(self._keys)
            raise PluginRefusal("NoCandidate", f"no pod of this node waits for {count} {name}")
        return found

    def _matches(self, pods: tuple[Pod, ...], resource: Resource, count: int) -> _Found:
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
                epoch=self.epoch,
            )
            found = match(self._keys, evidence, resource, count)
            if found is not None:
                matches.append(found)
        return _Found(matches=tuple(matches), kubelet_answers=held is not None)

    def _waiting(self, pods: tuple[Pod, ...], resource: Resource, count: int) -> list[_Waiting]:
        """Return the pods that may be meant; those that run as a whole cost no question more."""
        living = self._runtime.containers()
        found = []
        for pod in pods:
            if finished(pod) or uid_of(pod) in self._refused:
                continue
            request = self._request(pod, resource, count)
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
            logger.warning(
                "several pods may be meant, the oldest decision is taken pods=%s",
                ["/".join(name_of(each.pod)) for each in found.matches],
            )
        return choose(self._keys, found.matches)

    def _request(self, pod: Pod, resource: Resource, count: int) -> PodRequest | None:
        try:
            return parse_request(self._keys, pod)
        except BadRequest as error:
            if count in _raw_limits(pod, resource.full_name(self._keys)) and self._is_new(pod):
                self.refused(pod)
                raise PluginRefusal(
                    "BadRequest", f"pod {'/'.join(name_of(pod))}: {error}"
                ) from error
            return None

    def _is_new(self, pod: Pod) -> bool:
        held = self._kubelet.devices((pod,))
        return held is None or held[uid_of(pod)] is not None


def _raw_limits(pod: Pod, resource: str) -> set[int]:
    spec = pod.get("spec") or {}
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    texts = [
        str(((each.get("resources") or {}).get("limits") or {}).get(resource, ""))
        for each in containers
    ]
    return {int(text) for text in texts if text.isascii() and text.isdigit()}
