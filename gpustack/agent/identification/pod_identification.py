"""Finding the container of an Allocate call, within a bounded time.

A pod that was just bound may reach the kubelet before our watch shows it: then the finder waits for
the watch, for a bounded time, asks the API server once, and refuses the call.

A pod that the kubelet knows to be deleted or has rejected may look like one that still waits: a
kubelet that has just started keeps its rejections back from the API server until it has gone
through all of its pods, which it doesn't while an Allocate is under way. So when several pods may
be meant, the finder asks for the kubelet's own list of active pods, then drops the pods that have
had their turn; only then it waits for the watch, for at most `SETTLE_SECONDS`.

The kubelet names pods by namespace and name. Where the watch shows under a name only a pod that is
being deleted, or one that was given these devices before, the kubelet may mean the next pod of that
name, which the watch doesn't show yet: then the finder asks the API server, too. Before a pod gets
its first devices, the API server is asked for the pod of its name: a watch may be late without a
sign of it, and the pod may be gone by then.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence

from gpustack.adapters.deviceplugin import PluginRefusal
from gpustack.adapters.kube import KubeError, KubeUnavailable
from gpustack.adapters.podresources import PodResourcesLimited
from gpustack.agent.cluster.pods import Pod, PodView, name_of, uid_of
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.identification.candidates import (
    AllocateCall,
    Candidates,
    ExpectedCall,
    WaitingPod,
    is_of_namesake,
    lacking,
    no_candidate,
    raw_limits,
)
from gpustack.agent.identification.pod_matching import (
    Evidence,
    Match,
    Resource,
    choose,
    has_begun,
    is_complete,
    match,
)
from gpustack.agent.identification.runtime import KubeletView, RuntimeView, running_names
from gpustack.model.refusal import Reason
from gpustack.model.request import BadRequest, PodRequest
from gpustack.wire.keys import Keys
from gpustack.wire.pods import finished, parse_limits

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 1.0
_ASK_SECONDS = 2.0
_CONFIRM_SECONDS = 1.0
_KUBELET_SECONDS = 5.0  # how long the kubelet's rate limit may delay its answer, all in all


class PodIdentification:
    """Gathers the evidence about this node's pods and asks `pod_matching` for the call's container.

    Args:
        may_come: whether the record of a pod (by UID) may still be restored.
    """

    def __init__(
        self,
        *,
        keys: Keys,
        pods: PodView,
        records: AllocationRecords,
        kubelet: KubeletView,
        runtime: RuntimeView,
        may_come: Callable[[str], bool],
    ) -> None:
        self._keys = keys
        self._pods = pods
        self._records = records
        self._kubelet = kubelet
        self._runtime = runtime
        self._may_come = may_come
        self.epoch = 1  # 0 marks records of an earlier agent
        self._refused = self._passed = frozenset[str]()
        self._expected: ExpectedCall | None = None
        self.guesses = 0
        self.ambiguities = 0

    def kubelet_restarted(self) -> None:
        """Take note that another kubelet is calling from now on, before it knows our devices.

        Without devices it rejects every pod that asks for some: the pods that it knows by now, and
        that hold none, have had their turn.
        """
        self.epoch += 1
        self._refused = self._passed = frozenset()
        self._kubelet.kubelet_restarted()
        waiting = lacking(self._keys, self._kubelet, self._pods.snapshot()[0])
        self._passed = frozenset(map(uid_of, waiting))

    def refused(self, pod: Pod, epoch: int) -> None:
        """Take note that this pod was refused to the kubelet: it doesn't ask a second time.

        Until the API server shows the pod as failed, it looks like one that still waits. Another
        kubelet than the one that got the refusal, `epoch`, does ask.
        """
        if epoch == self.epoch:
            self._refused = self._present(self._refused) | {uid_of(pod)}

    def expect(self, resource: Resource, ids: Sequence[str]) -> None:
        """Find the container of the Allocate of these IDs that comes next, if one look is sure.

        The kubelet asks for preferred IDs before it takes them. A `List` of PodResources while it
        has taken some, and not written down yet, may give them out a second time
        (k8s.io/kubernetes pkg/kubelet/cm/devicemanager UpdateAllocatedDevices).
        """
        self._expected = None
        call = AllocateCall.of(resource, ids, self.epoch, seconds=0)
        try:
            found = self._matches(self._pods.snapshot()[0], call)
        except PodResourcesLimited:
            return  # Allocate may wait for it
        if found.kubelet_answers and len(found.matches) == 1 and found.is_sure(self._passed):
            self._expected = ExpectedCall(call=call, match=found.matches[0])

    def find(self, resource: Resource, ids: Sequence[str], epoch: int) -> Match:
        """Return the container that an Allocate of these IDs by the kubelet `epoch` is for.

        Raises:
            PluginRefusal: `NoCandidate` when no pod waits for so many, `ApiServerAway` when that
                can't be known; `KubeletBusy` when the kubelet's rate limit keeps its answer back;
                `BadRequest` when the pod asks for something that doesn't exist.
        """
        call = AllocateCall.of(resource, ids, epoch, seconds=_KUBELET_SECONDS)
        expected, self._expected = self._expected, None
        try:
            if expected is not None and expected.means(call):
                found = Candidates(matches=(expected.match,), kubelet_answers=True)
            else:
                found = self._search(call)
            if any(map(self._is_replaced, found.matches)):
                found = self._ask_api_server(call)
        except PodResourcesLimited as error:
            raise PluginRefusal("KubeletBusy", f"{error}; find its other client") from error
        return self._chosen(found)

    def _search(self, call: AllocateCall) -> Candidates:
        started = time.monotonic()
        while True:
            pods, version = self._pods.snapshot()
            found = self._matches(pods, call)
            seconds = SETTLE_SECONDS if found.matches else self._pods.wait_seconds
            if found.is_clear(self._passed):
                break
            if not found.matches and self._bad(pods, call) is not None:
                break
            if not self._pods.wait_for_change(version, started + seconds):
                break
        return found if found.is_sure(self._passed) else self._ask_api_server(call)

    def _is_replaced(self, found: Match) -> bool:
        """Say whether the kubelet means the next pod of this name, at its first call for a pod."""
        is_known = has_begun(self._records.get(uid_of(found.pod)), self.epoch)
        return not is_known and self._pods.is_replaced(found.pod, _CONFIRM_SECONDS)

    def _ask_api_server(self, call: AllocateCall) -> Candidates:
        """Look again after a read from the API server: the watch may not show the pod yet."""
        away: KubeError | KubeUnavailable | None = None
        try:
            self._pods.refresh(_ASK_SECONDS)
        except (KubeError, KubeUnavailable) as error:
            away = error
        pods = self._pods.snapshot()[0]
        found = self._matches(pods, call)
        is_going = all(each.is_leaving for each in found.matches)
        if away is None and is_going:
            self._refuse_bad(pods, call)
        if away is None and not found.matches:
            hidden = self._kubelet.hidden(pods, call.until)
            raise no_candidate(call.count, call.resource.full_name(self._keys), hidden)
        if away is not None and is_going:
            going = ", ".join("/".join(name_of(each.pod)) for each in found.matches)
            text = f"but {going}, which is being deleted" if going else "is known"
            raise PluginRefusal("ApiServerAway", f"no waiting pod {text}: {away}") from away
        return found

    def _matches(self, pods: tuple[Pod, ...], call: AllocateCall) -> Candidates:
        waiting = self._waiting(pods, call)
        asked = tuple(each.pod for each in waiting)
        # `Get` has a pod that was rejected, too, which our watch may show as one that waits.
        begun = all(has_begun(self._records.get(uid_of(pod)), call.epoch) for pod in asked)
        held = (self._kubelet.devices if begun else self._kubelet.active)(asked, call.until)
        matches = []
        for each in waiting:
            uid = uid_of(each.pod)
            record, shown = self._records.get(uid), self._pods.get(uid)  # in this order
            if record is None and (shown is None or finished(shown)):
                continue  # it has ended meanwhile; without its record it looks like a new pod
            devices = None if held is None else held[uid]
            if record is None and is_of_namesake(self._records.all(), each.pod, devices):
                continue
            evidence = Evidence(
                pod=each.pod,
                request=each.request,
                record=record,
                may_come=self._may_come(uid),
                kubelet_answers=held is not None,
                held=devices,
                running=each.running,
                epoch=call.epoch,
            )
            matches.append(match(self._keys, evidence, call.resource, call.count))
        likely = tuple(filter(None, matches))
        found = Candidates(matches=likely, kubelet_answers=held is not None)
        return self._active(found, call.until)

    def _active(self, found: Candidates, until: float) -> Candidates:
        """Drop the pods that the kubelet has finished with, as far as it says so."""
        if len(found.matches) < 2 or not found.kubelet_answers:
            return found
        active = self._kubelet.active(tuple(each.pod for each in found.matches), until) or {}
        left = tuple(each for each in found.matches if active.get(uid_of(each.pod)) is not None)
        return dataclasses.replace(found, matches=left or found.matches)

    def _waiting(self, pods: tuple[Pod, ...], call: AllocateCall) -> list[WaitingPod]:
        """Return the pods that may be meant; a pod with all its devices costs no request."""
        living = self._runtime.names()
        found = []
        for pod in pods:
            if finished(pod) or uid_of(pod) in self._refused:
                continue
            request = self._request(pod)
            asked = [] if request is None else [call.resource.asked(e) for e in request.containers]
            if request is None or call.count not in asked:
                continue
            if is_complete(self._records.get(uid_of(pod)), request, call.epoch):
                continue
            running = running_names(pod, living)
            if not all(each.name in running for each in request.containers):
                found.append(WaitingPod(pod=pod, request=request, running=running))
        return found

    def _chosen(self, found: Candidates) -> Match:
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
            return None  # see _bad: it is left out while another pod may be meant

    def _bad(self, pods: tuple[Pod, ...], call: AllocateCall) -> tuple[Pod, BadRequest] | None:
        """Return a pod that may be meant and whose limits don't exist, and what is wrong there."""
        for pod in pods:
            if finished(pod) or uid_of(pod) in self._refused:
                continue
            try:
                parse_limits(self._keys, pod)
            except BadRequest as error:
                asks = call.count in raw_limits(pod, call.resource.full_name(self._keys))
                if asks and self._is_new(pod, call):
                    return pod, error
        return None

    def _refuse_bad(self, pods: tuple[Pod, ...], call: AllocateCall) -> None:
        if (bad := self._bad(pods, call)) is not None:
            pod, error = bad
            self.refused(pod, call.epoch)
            text = f"pod {'/'.join(name_of(pod))}: {error}"
            raise PluginRefusal(Reason.BAD_REQUEST, text) from error

    def _is_new(self, pod: Pod, call: AllocateCall) -> bool:
        if uid_of(pod) in self._passed:
            return False
        active = self._kubelet.active((pod,), call.until)
        return active is None or active[uid_of(pod)] is not None
