"""The words of a refusal's Event: how many nodes for which reason, which card came closest, a fix.

Made by the thread that writes Events, so that no decision waits for it; only what the quota says is
put down at once, for by then the cards may be gone as well, and the Event would tell of those.
What would fix it is a search through the cluster (`model.advice`): pods that ask alike share one
for a while, and searches take no more than a small part of the time, or they would take it from
the decisions. Where there is none, the Event does without; `/v1/explain` searches whenever it is
asked. Who reads a pod's Events may not know other namespaces' pods: those are counted, not named.
"""

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.pods import PodState
from extender.cache.snapshot import (
    ClusterSnapshot,
    SearchTakesTooLong,
    Snapshotter,
    advise,
)
from extender.requeue.simulation import Kind, kind_of
from gpustack.model.cluster import eligibility
from gpustack.model.explain.query import Change
from gpustack.model.explain.query import Kind as ChangeKind
from gpustack.model.lru import LRUCache
from gpustack.model.node import Node
from gpustack.model.refusal import Reason
from gpustack.model.request import ContainerRequest, PodRequest
from gpustack.model.search.demand import usable

_FRESH_SECONDS: Final = 20.0  # how long an answer is good for pods that ask alike
_PAUSE: Final = 20.0  # a search of 50 ms is followed by a second without one
_LONGEST_SECONDS: Final = 5.0  # of a search: no other Event is written meanwhile
_MOST_KNOWN: Final = 256
_MOST_CHANGES: Final = 3  # an Event has room for 1024 bytes
_OF_QUOTA: Final = (Reason.QUOTA_EXCEEDED, Reason.MODEL_FORBIDDEN, Reason.POOL_FORBIDDEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Sentences that a search has found; empty where there is nothing to say."""

    closest: str = ""
    fix: str = ""


class EventMessages:
    """Words refusals. What it returns is called by one thread."""

    def __init__(
        self, snapshotter: Snapshotter, evaluator: NodeEvaluator, *, clock: Callable[[], float]
    ) -> None:
        self._snapshotter = snapshotter
        self._evaluator = evaluator
        self._clock = clock
        self._known: LRUCache[Kind, tuple[float, _Found]] = LRUCache(_MOST_KNOWN)
        self._next_search = float("-inf")

    def __call__(
        self, pod: PodState, reasons: Mapping[Reason, int], example: str
    ) -> Callable[[], str]:
        """Return what words a refusal, whenever there is time for it.

        Args:
            pod: the pod that was refused.
            reasons: by how many nodes, and why.
            example: a node of the commonest reason, whose numbers are told where there is no time
                to look for the closest one.
        """
        ordered = sorted(reasons, key=lambda reason: (-reasons[reason], reason))
        counts = ", ".join(f"{reasons[reason]} {reason}" for reason in ordered)
        asked = sum(reasons.values())
        nodes = "1 node" if asked == 1 else f"{asked} nodes"
        head = f"of {nodes} that kube-scheduler asked about, none fits: {counts}"
        first = ordered[0] if ordered else None
        of_quota = self._of_quota(pod, example, first) if first in _OF_QUOTA else ""
        return functools.partial(self._words, pod, head, example, of_quota)

    def _words(self, pod: PodState, head: str, example: str, of_quota: str) -> str:
        found = self._details(pod)
        if of_quota or found == _Found():
            found = _Found(closest=of_quota or self._numbers(pod, example), fix=found.fix)
        return ". ".join(filter(None, (head, found.closest, found.fix)))

    def _details(self, pod: PodState) -> _Found:
        """Return what came closest and what would help, as far as there is time to find out.

        A snapshot of a thousand nodes alone takes a tenth of a second of a processor.
        """
        now, kind = self._clock(), kind_of(pod)
        since, known = self._known.get(kind) or (float("-inf"), _Found())
        if now < since + _FRESH_SECONDS:
            return known
        if now < self._next_search:
            return _Found()
        found = self._search(pod)
        after = self._clock()
        self._next_search = after + _PAUSE * (after - now)
        self._known.put(kind, (after, found), 1)
        return found

    def _of_quota(self, pod: PodState, node: str, reason: Reason | None) -> str:
        """Return what the quota says of the node's own answer: the scheduler waits for it."""
        broken = self._evaluator.violation(pod, node) if node else None
        return f"{node}: {broken.detail}" if broken and broken.reason is reason else ""

    def _numbers(self, pod: PodState, node: str) -> str:
        """Return what a node says to the pod now."""
        refusal = self._evaluator.refusal(pod, node) if node else None
        if refusal is None:
            return ""
        return f"{node}: {refusal.detail or refusal.message}"

    def _search(self, pod: PodState) -> _Found:
        snapshot = self._snapshotter.take(pod)
        name, title = ("", "") if pod.request is None else _closest(snapshot, pod, pod.request)
        refusal = self._evaluator.refusal(pod, name) if name else None
        changes: list[str] = []
        with contextlib.suppress(SearchTakesTooLong):
            found = advise(snapshot, pod, seconds=_LONGEST_SECONDS, clock=self._clock)
            changes = [_words_for(pod.namespace, change) for change in found.changes]
        return _Found(
            closest=f"Closest is {title}: {refusal.detail or refusal.message}" if refusal else "",
            fix=f"It would fit if {'; or if '.join(changes[:_MOST_CHANGES])}" if changes else "",
        )


def _words_for(namespace: str, change: Change) -> str:
    """Return a change as a sentence that names no other namespace's pods."""
    if change.kind is not ChangeKind.PODS_END:
        return change.text
    own = [name for name in change.names if name.startswith(f"{namespace}/")]
    others = len(change.names) - len(own)
    if not others:
        return change.text
    counted = f"{others} {'pod' if others == 1 else 'pods'} of other namespaces"
    pods = f"{', '.join(own)} and {counted}" if own else counted
    ends = "ends" if len(change.names) == 1 else "end"
    also = f", and {change.also}" if change.also else ""
    return f"{pods} {ends}, which leaves room on node {change.placement.node}{also}"


def _closest(snapshot: ClusterSnapshot, pod: PodState, request: PodRequest) -> tuple[str, str]:
    """Return the node that lacks the smallest part of what is asked, and what to call it.

    A share lacks a part of one card, which is named with the node. Nodes that don't take the pod
    whatever their cards come last. The name is empty where there is no such node.
    """
    nodes = snapshot.cluster.nodes
    barred = eligibility.refusals(pod.demands, nodes, snapshot.cluster.hosts)
    largest = max(request.containers, key=lambda each: (each.cores, each.memory_units))
    found = [
        (name in barred, -part, name, minor)
        for name, node in nodes.items()
        for part, minor in _parts(node, request, largest)
    ]
    _, _, name, minor = min(found, default=(False, 0.0, "", 0))
    return name, f"GPU {minor} of {name}" if largest.is_share else f"node {name}"


def _parts(node: Node, request: PodRequest, largest: ContainerRequest) -> list[tuple[float, int]]:
    """Return which part of what is asked a node's cards have, each with a card's minor."""
    cards = usable(node, request)
    if not cards:
        return []
    if not largest.is_share:
        idle = sum(node.uses[index].idle for index in cards)
        return [(idle / largest.whole_cards, node.cards[cards[0]].minor)]
    return [
        (
            min(
                node.free_cores(index) / largest.cores,
                node.free_memory_units(index) / largest.memory_units,
                1.0,
            ),
            node.cards[index].minor,
        )
        for index in cards
    ]
