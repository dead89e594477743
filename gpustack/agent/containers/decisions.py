"""From a pod to the record of its cards: the extender's decision verified, or one of our own.

A decision that can't be verified is refused by its name; the agent never decides in its stead. A
pod without a decision is refused, too (`undecided.py`), unless the operator says otherwise. Then
the agent places it, and writes the decision on the pod.
"""

import dataclasses
import logging
import time
from collections.abc import Callable
from typing import TypeVar

from gpustack.adapters.deviceplugin import PluginRefusal
from gpustack.adapters.kube import KubeError, KubeUnavailable
from gpustack.agent.cluster.pods import Pod, PodView, name_of, uid_of
from gpustack.agent.containers.allocation_records import (
    AllocationRecords,
    ContainerRecord,
    PodRecord,
    Source,
)
from gpustack.agent.containers.undecided import UndecidedPods
from gpustack.agent.node.inventory import CardInventory
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.refusal import Reason, Refusal
from gpustack.model.request import PodRequest
from gpustack.model.verification import verify, wrong_cards
from gpustack.wire.annotations import BadAnnotation, decode_decision
from gpustack.wire.keys import Keys
from gpustack.wire.pods import finished, usage
from gpustack.wire.user_keys import parse_user_keys

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_WANT_OF_ROOM = frozenset(
    {
        Reason.INSUFFICIENT_CORE,
        Reason.INSUFFICIENT_MEMORY,
        Reason.NO_WHOLE_CARD,
        Reason.TOPOLOGY_UNMET,
    }
)
# Time for which a pod that has just ended may still hold cards: a force-deleted pod is gone from
# the API server at once, and its containers end a second or two later, without a watch event.
_WAIT_SECONDS = 4.0
# The same after a wait in vain for the same pods: the kubelet makes one call at a time, and one
# user's pods of this kind would keep those of all others waiting.
_SHORT_WAIT_SECONDS = 0.25
_LOOK_SECONDS = 0.25
_ASK_SECONDS = 2.0


class PodDecisions:
    """Makes the record of a pod whose first container is being admitted.

    Args:
        free_cards: frees the cards of ended pods, until a time (monotonic seconds); called
            before a pod is refused for lack of free cards, because the extender may have seen a
            pod end before the agent did.
        undecided: refuses pods without a decision, or writes one on them.
    """

    def __init__(
        self,
        *,
        keys: Keys,
        inventory: CardInventory,
        pods: PodView,
        records: AllocationRecords,
        free_cards: Callable[[float], None],
        undecided: UndecidedPods,
    ) -> None:
        self._keys = keys
        self._inventory = inventory
        self._pods = pods
        self._records = records
        self._free_cards = free_cards
        self._undecided = undecided
        self._in_vain = frozenset[str]()  # UIDs of ended pods whose cards were waited for

    def record(self, pod: Pod, request: PodRequest) -> PodRecord:
        """Return the pod's record, not saved yet.

        Raises:
            PluginRefusal: `BadAnnotation` for a decision that can't be read, `Undecided` where
                there is none, else a code of `gpustack.model.refusal.Reason`.
        """
        try:
            decision = decode_decision(self._keys, pod, request)
        except BadAnnotation as error:
            raise PluginRefusal("BadAnnotation", str(error)) from error
        self._undecided.check(pod, is_decided=decision is not None)
        if decision is None:
            return self._decide(pod, request)
        placement = self._with_uuids(decision.placement)
        refusal = self._until_room(pod, lambda node: verify(node, placement, request))
        if isinstance(refusal, Refusal):
            raise _refused(refusal)
        return self._new(pod, placement, decision.time_ns, Source.EXTENDER)

    def check_cards(self, container: ContainerRecord) -> None:
        """Let a recorded container pass whose cards still have the minors of the record.

        Raises:
            PluginRefusal: `CardRenumbered` or `UnknownCard`.
        """
        refusal = wrong_cards(self._inventory.node, (container.placement,))
        if refusal is not None:
            raise _refused(refusal)

    def _decide(self, pod: Pod, limits: PodRequest) -> PodRecord:
        chosen = parse_user_keys(self._keys, pod)
        if chosen.problems:
            problem = chosen.problems[0]
            raise PluginRefusal(Reason.BAD_REQUEST, f"pod {'/'.join(name_of(pod))}: {problem}")
        request = chosen.choose_for(limits)

        def attempt(node: Node) -> Placement | Refusal:
            return place(self._with_reserved(node, uid_of(pod)), request)

        answer = self._until_room(pod, attempt)
        if isinstance(answer, Placement):
            decided_ns = time.time_ns()
            self._undecided.annotate(pod, answer, decided_ns)
            return self._new(pod, answer, decided_ns, Source.AGENT)
        raise _refused(answer)

    def _until_room(self, pod: Pod, attempt: Callable[[Node], _T | Refusal]) -> _T | Refusal:
        """Try, and for lack of free cards try again while pods and containers end, within a bound.

        A dead watch may look idle. So the API server is asked before a refusal, at once and once
        more at the end.
        """
        deadline = time.monotonic() + _WAIT_SECONDS
        _, version = self._pods.snapshot()
        answer = self._try(pod, attempt, deadline)
        if not _wants_room(answer):
            return answer
        self._ask_api_server()
        over = self._over()
        if over and over <= self._in_vain:
            deadline = min(deadline, time.monotonic() + _SHORT_WAIT_SECONDS)
        while (now := time.monotonic()) < deadline:
            answer = self._try(pod, attempt, deadline)
            if not _wants_room(answer):
                return answer
            self._pods.wait_for_change(version, min(deadline, now + _LOOK_SECONDS))
            _, version = self._pods.snapshot()
        problem = self._ask_api_server()
        answer = self._try(pod, attempt, time.monotonic() + _ASK_SECONDS)
        if not isinstance(answer, Refusal) or not _wants_room(answer):
            return answer
        self._in_vain = self._over()
        details = [answer.detail] if answer.detail else []
        if self._in_vain:
            details.append(f"pods that are over and may still run here: {len(self._in_vain)}")
        if problem:
            details.append(f"the API server doesn't say which pods have ended: {problem}")
        return dataclasses.replace(answer, detail="; ".join(details))

    def _over(self) -> frozenset[str]:
        """Return the UIDs of the pods that are over, by the API server, and have cards here."""
        found = {record.uid: self._pods.get(record.uid) for record in self._records.all()}
        return frozenset(uid for uid, pod in found.items() if pod is None or finished(pod))

    def _try(
        self, pod: Pod, attempt: Callable[[Node], _T | Refusal], deadline: float
    ) -> _T | Refusal:
        self._free_cards(deadline)
        return attempt(self._records.taken(self._inventory.node, without=uid_of(pod)))

    def _ask_api_server(self) -> str:
        """Read this node's pods from the API server; return why it failed, if it did."""
        try:
            self._pods.refresh(_ASK_SECONDS)
        except (KubeError, KubeUnavailable) as error:
            return str(error)
        return ""

    def _with_reserved(self, node: Node, uid: str) -> Node:
        """Take the cards of pods that are decided for this node and not admitted yet."""
        recorded = {record.uid for record in self._records.all()} | {uid}
        coming = [pod for pod in self._pods.snapshot()[0] if uid_of(pod) not in recorded]
        return usage(self._keys, node, coming)

    def _with_uuids(self, placement: Placement) -> Placement:
        """Fill in the UUIDs that an extender of the original leaves out."""
        known = {card.minor: card.uuid for card in self._inventory.node.cards}
        containers = tuple(
            dataclasses.replace(
                each,
                uuids=tuple(
                    uuid or known.get(minor, "")
                    for minor, uuid in zip(each.minors, each.uuids, strict=True)
                ),
            )
            for each in placement.containers
        )
        return dataclasses.replace(placement, containers=containers)

    def _new(self, pod: Pod, placement: Placement, decided_ns: int, source: Source) -> PodRecord:
        namespace, name = name_of(pod)
        return PodRecord(
            uid=uid_of(pod),
            namespace=namespace,
            name=name,
            node=placement.node,
            decided_ns=decided_ns,
            source=source,
            containers=tuple(ContainerRecord(placement=each) for each in placement.containers),
        )


def _wants_room(answer: object) -> bool:
    return isinstance(answer, Refusal) and answer.reason in _WANT_OF_ROOM


def _refused(refusal: Refusal) -> PluginRefusal:
    text = refusal.message + (f" ({refusal.detail})" if refusal.detail else "")
    return PluginRefusal(refusal.reason, text)
