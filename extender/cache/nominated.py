"""Pods for which the scheduler makes room on a node: what they will take counts already.

The scheduler names the node in ``status.nominatedNodeName`` when it has told victims there to go.
Until they are gone, no pod of lower priority may take what becomes free. From 1.35 on it names the
node of each pod that waits for a volume, too, and any tenant has as many of those as it likes.
"""

import collections
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.cache.node_results import Turns
from extender.cache.pods import PodState
from gpustack.model.lru import LRUCache
from gpustack.model.model_name import model_matches
from gpustack.model.node import Node
from gpustack.model.placement import Placement, Placer, apply, release
from gpustack.model.refusal import Refusal
from gpustack.model.request import PodRequest
from gpustack.model.search.exclusion import avoiding

_MOST_BYTES: Final = 24 << 20
_NODE_BYTES: Final = 1024
_USE_BYTES: Final = 64
_POD_BYTES: Final = 128
_NAME_BYTES: Final = 64
# Containers of pods that count; of a namespace, and of all namespaces together. A further pod
# counts until they are as many, for a single one may have 64.
_MOST: Final = 128, 512
_MOST_OF_NODE: Final = 16, 32
_ANYWHERE: Final = ""  # stands for all nodes

NamesLeft = tuple[tuple[str, bool], ...]
"""The names of models in a pod's quota; of each, whether it leaves what a container takes at least.

Without any, the pod may have any card."""

_Key = tuple[str, int, Turns, str, Sequence[NamesLeft]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInTurn:
    """A node at one moment, for a pod that others may go before.

    Attributes:
        node: without what the pod itself holds there.
        first: the pods that go before it, and hold no cards yet.
        leaving: what other pods hold that are about to end, by UID: it is theirs as well.
        version: the node's.
        own: the pod itself, where it holds cards there.
        names: of each of the first; none where the node has cards of one model.
    """

    node: Node
    first: Sequence[PodState]
    leaving: Mapping[str, Placement]
    version: int
    own: str
    names: tuple[NamesLeft, ...]

    @property
    def turns(self) -> Turns:
        """Who goes before the pod, and who leaves the node then; without the first, nobody."""
        first = ((each.uid, each.version) for each in self.first)
        return (*first, *((uid, 0) for uid in self.leaving)) if self.first else ()

    @property
    def key(self) -> _Key:
        """What differs where the node after their turns may differ."""
        return self.node.name, self.version, self.turns, self.own, self.names


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAfterTurns:
    """A node after the pods that go first took their cards, and the number of its state."""

    node: Node
    state: int


class NodesAfterTurns:
    """Remembers such nodes: to place these pods in each question would slow every other down."""

    def __init__(self) -> None:
        self._known: LRUCache[_Key, NodeAfterTurns] = LRUCache(_MOST_BYTES)

    def get(self, found: NodeInTurn) -> NodeAfterTurns | None:
        """Return the node after their turns, where that is known."""
        return self._known.get(found.key)

    def put(self, found: NodeInTurn, node: Node, state: int) -> NodeAfterTurns:
        """Remember a node after their turns."""
        made = NodeAfterTurns(node=node, state=state)
        pods = len(found.first) + len(found.leaving)
        size_bytes = _NODE_BYTES + _USE_BYTES * len(node.uses) + _POD_BYTES * pods
        size_bytes += _NAME_BYTES * sum(map(len, found.names))
        self._known.put(found.key, made, size_bytes)
        return made


def after_turns(found: NodeInTurn, placer: Placer) -> Node:
    """Return a node after the pods that go first took their cards; each costs a search."""
    node = free = found.node
    for held in found.leaving.values():
        free = release(free, held)
    for pod, names in zip(found.first, found.names, strict=True):
        plan = None if pod.request is None else _plan(free, pod.request, names, placer)
        if isinstance(plan, Placement):
            free, node = apply(free, plan), apply(node, plan)
    return node


def _plan(node: Node, asked: PodRequest, names: NamesLeft, placer: Placer) -> Placement | Refusal:
    """Return which cards a pod would get, none of them one of which its quota leaves it too little.

    Where it fits on no others, its quota may leave it more by then.
    """
    closed = [at for at, card in enumerate(node.cards) if names and not _open(names, card.model)]
    plan = placer(*avoiding(node, asked, closed)) if closed else None
    return plan if isinstance(plan, Placement) else placer(node, asked)


def _open(names: NamesLeft, model: str) -> bool:
    left = [is_left for name, is_left in names if model_matches(name, model)]
    return bool(left) and all(left)


class NominatedPods:
    """The nominated pods by node. Not locked: its owner is.

    A tenant writes to its pods as often as it likes, and each change here costs everybody searches
    anew. So a pod counts with what it asked when it was nominated, whatever its user keys say
    later. And of one namespace so many containers count, each of which costs a search: others may
    take what the further pods wait for, as they may of pods that aren't nominated. A further one
    counts from its next news on, where another has gone. A tenant may have many namespaces: where
    all that may count do, the least important pods make room for one of higher priority, and else
    those of the namespace that has the most for a namespace that has fewer.
    """

    def __init__(self) -> None:
        self._where: dict[str, str] = {}
        self._by_node: dict[str, dict[str, PodState]] = {}  # in the order in which they go
        self._counts: dict[str, collections.Counter[str]] = {}  # of namespaces, by node

    def learn(self, pod: PodState) -> bool:
        """Take what a pod says now; returns whether a node was given up."""
        node = pod.nominated if pod.waits and not pod.gated else ""
        left = self._where.get(pod.uid, node) != node and self.forget(pod.uid)
        known = self._by_node.get(node, {}).get(pod.uid)
        if pod.request is None or (known is not None and _amounts(known) == _amounts(pod)):
            return left
        if known is not None:
            self.forget(pod.uid)
        if not node or not self._has_turn(pod.namespace, node):
            return left
        for where, (_, most) in ((node, _MOST_OF_NODE), (_ANYWHERE, _MOST)):
            while self._make_room(pod, where, most):
                left = True
            if self._full(where, most):
                return left
        self._put(pod, node)
        return left

    def forget(self, uid: str) -> bool:
        """Forget a pod; returns whether it was to get a node."""
        node = self._where.pop(uid, "")
        if node:
            pods = self._by_node[node]
            pod = pods.pop(uid)
            self._count(pod.namespace, node, -_size(pod))
            if not pods:
                del self._by_node[node]
        return bool(node)

    @property
    def nodes(self) -> Iterator[str]:
        """The nodes that a pod is nominated to."""
        return iter(self._by_node)

    def before(self, pod: PodState, node: str) -> list[PodState]:
        """Return the others that go first on a node: of the same priority or higher, highest first.

        Pods of equal priority don't push each other away, so each counts for the other, as in the
        scheduler's own check.
        """
        return [
            other
            for other in self._by_node.get(node, {}).values()
            if other.priority >= pod.priority and other.uid != pod.uid
        ]

    def _has_turn(self, namespace: str, node: str) -> bool:
        scopes = (node, _MOST_OF_NODE), (_ANYWHERE, _MOST)
        return all(self._of(where)[namespace] < most for where, (most, _) in scopes)

    def _full(self, where: str, most: int) -> bool:
        return self._of(where).total() >= most

    def _make_room(self, pod: PodState, where: str, most: int) -> bool:
        """Take the least important pod, where this one is more important; return whether one went.

        Else take the last pod of the namespace that has the most, unless this one's has as many.
        """
        if not self._full(where, most):
            return False
        nodes = [where] if where else list(self._by_node)
        lasts = (next(reversed(self._by_node[node].values())) for node in nodes)
        least = min(lasts, key=lambda each: each.priority)
        if least.priority < pod.priority:
            return self.forget(least.uid)
        counts = self._of(where)
        largest = max(counts, key=counts.__getitem__)
        if counts[largest] <= counts[pod.namespace] + _size(pod):
            return False
        found = (
            uid
            for node in nodes
            for uid, each in reversed(self._by_node[node].items())
            if each.namespace == largest
        )
        return self.forget(next(found))

    def _of(self, where: str) -> collections.Counter[str]:
        return self._counts.get(where, collections.Counter())

    def _put(self, pod: PodState, node: str) -> None:
        pods = [*self._by_node.get(node, {}).values(), pod]
        pods.sort(key=lambda each: (-each.priority, each.uid))
        self._by_node[node] = {each.uid: each for each in pods}
        self._where[pod.uid] = node
        self._count(pod.namespace, node, _size(pod))

    def _count(self, namespace: str, node: str, more: int) -> None:
        for where in (_ANYWHERE, node):
            counts = self._counts.setdefault(where, collections.Counter())
            counts[namespace] += more
            if not counts[namespace]:
                del counts[namespace]
            if not counts:
                del self._counts[where]


def _size(pod: PodState) -> int:
    """Return how many containers a pod is placed for."""
    return 1 if pod.shape is None else len(pod.shape.containers)


def _amounts(pod: PodState) -> tuple[object, ...]:
    """Return what the API lets nobody change while a pod waits."""
    return pod.priority, None if pod.shape is None else pod.shape.containers
