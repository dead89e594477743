"""What every node says to a pod, from memory.

An answer is remembered by what is asked (``PodState.shape``) and by the node's version, so a
question asked before costs the nodes that changed since. Nodes of the same hardware and the same
uses answer alike and are asked once for all. What can't be remembered, because it depends on the
pod itself or changes by itself, is applied after: the pod's own cards count as free, pods that the
scheduler makes room for go first, and the quota of the namespace.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from extender.cache.cache import ClusterCache
from extender.cache.equivalence_tables import (
    REFUSED,
    NodeResult,
    NodeStates,
    ResultTable,
    ResultTables,
)
from extender.cache.node_results import CacheVersion, NodeResults, Turns
from extender.cache.pods import PodState
from gpustack.model.equivalence import moved
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement, apply
from gpustack.model.policies import EXACT, Policy
from gpustack.model.quota.quota import Placer, Usage, amounts, forbids, within
from gpustack.model.refusal import Reason, Refusal
from gpustack.model.request import ANY, PodRequest

_MOST_LOOKS: Final = 5  # at a node that changes while it is looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A question, and what was said to it when its table was at this version of the view."""

    table: ResultTable
    said: NodeResults


class NodeEvaluator:
    """Asks nodes under one policy.

    A search may take long, so none is made while the view's lock is held, and who holds it may call
    nothing here but ``holds`` and ``placement``. What nodes say is true of a moment after the
    question was asked, not of the same moment for all of them. A question needs no more: whoever
    decides on an answer takes the lock, and asks whether it ``holds``.
    """

    def __init__(self, view: ClusterCache, policy: Policy = EXACT) -> None:
        self._view = view
        self._policy = policy
        self._tables = ResultTables()
        self._states = NodeStates()
        self._last = _Asked(table=ResultTable(), said=NodeResults((), ()))

    @property
    def policy(self) -> Policy:
        """In which order nodes and cards are tried."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        with self._view.lock:
            if policy != self._policy:
                self._policy = policy
                self._tables.clear()

    @property
    def size_bytes(self) -> int:
        """About how much memory is taken by what is remembered."""
        return self._tables.size_bytes

    def of(self, pod: PodState, names: Sequence[str]) -> NodeResults:
        """Return what each of these nodes says to a pod that asks for a GPU."""
        rooms = self._view.rooms
        table = self._table(_shape(pod))
        remembered = self._remembered(table, names, rooms)
        turns, limited = self._turns(pod), self._view.quota.of(pod.namespace) is not None
        if not turns and not limited:
            return remembered
        found = list(remembered.answers)
        if turns:
            self._ask_anew(pod, names, found, turns)
        if limited:
            self._limit(pod, names, found)
        return NodeResults(names, found, replace(remembered.moment, rooms=rooms, turns=turns))

    def holds(self, pod: PodState, said: NodeResults, name: str) -> bool:
        """Say whether a node's answer is true now, but for the quota. Hold the view's lock."""
        version, moment = self._view.version_of(name), said.moment
        return (
            version is not None
            and version <= moment.version[0]
            and self._turn(pod, name) == moment.turns.get(name, ())
        )

    def placement(self, pod: PodState, name: str, answer: NodeResult) -> Placement:
        """Return an answer's placement as this pod's on this node.

        Raises:
            ValueError: the answer is a refusal.
        """
        base = self._view.base(name)
        if base is None or answer.like is None or pod.request is None:
            raise ValueError(f"node {name} has no cards for pod {pod.full_name}")
        return _named(moved(base, answer.like), pod.request)

    def refusal(self, pod: PodState, name: str) -> Refusal | None:
        """Return a node's refusal with its numbers, None when it has room; costs a search."""
        node = self.node(pod, name)
        if node is None:
            return Refusal(reason=Reason.NODE_UNKNOWN)
        found = self.within_quota(pod)(node, pod.request or _shape(pod))
        return found if isinstance(found, Refusal) else None

    def node(self, pod: PodState, name: str) -> Node | None:
        """Return a node as this pod finds it: its own cards free, those of others' turns taken."""
        with self._view.lock:
            node = self._view.node(name, without=pod.uid)
            first = self._view.nominees_before(pod, name) if node is not None else []
            if node is None or not first:
                return node
            # Room is made for them: what pods hold that are about to end is theirs as well.
            free = self._view.node_without(name, (*self._leaving(name), pod.uid))
        for asked in (other.request for other in first):
            plan = None if free is None or asked is None else self._place(free, asked)
            if free is not None and isinstance(plan, Placement):
                free, node = apply(free, plan), apply(node, plan)
        return node

    def node_and_holders(
        self, pod: PodState, name: str
    ) -> tuple[Node, Mapping[str, Placement]] | None:
        """Return a node as this pod finds it, and what each pod holds of it, of one moment.

        None where it isn't known, or doesn't stand still long enough.
        """
        for _ in range(_MOST_LOOKS):
            with self._view.lock:
                version, held = self._view.version_of(name), self._view.holders(name)
            node = self.node(pod, name)
            if version == self._view.version_of(name):
                return None if node is None else (node, held)
        return None

    def _leaving(self, name: str) -> list[str]:
        """Return the pods that hold cards of a node and are about to end."""
        held = map(self._view.pod, self._view.holders(name))
        return [pod.uid for pod in held if pod is not None and pod.deletion]

    def _turns(self, pod: PodState) -> Mapping[str, Turns]:
        """Return the nodes whose answer to this pod isn't that to its shape, each with why."""
        view, held = self._view, self._view.placement(pod.uid)
        names = {*view.nominated_nodes, *(() if held is None else (held.node,))}
        found = {name: self._turn(pod, name) for name in names}
        own = None if held is None else held.node
        return {name: turn for name, turn in found.items() if turn or name == own}

    def _turn(self, pod: PodState, name: str) -> Turns:
        with self._view.lock:
            first = self._view.nominees_before(pod, name)
            if not first:
                return ()
            leaving = ((uid, 0) for uid in self._leaving(name))
            return (*((each.uid, each.version) for each in first), *leaving)

    def _ask_anew(
        self, pod: PodState, names: Sequence[str], found: list[NodeResult], special: Collection[str]
    ) -> None:
        """Replace what is remembered of these nodes by what they say to this very pod."""
        for at, name in enumerate(names):
            node = self.node(pod, name) if name in special else None
            if node is not None:
                found[at] = self._ask(ResultTable(), node, _shape(pod))

    # The memory.

    def _remembered(self, table: ResultTable, names: Sequence[str], rooms: int) -> NodeResults:
        """Return what nodes say to a table's shape."""
        asked, version = self._last, table.version
        # prioritize names the nodes that filter has just named.
        last = asked.said
        if asked.table is table and last.moment.version == version and last.names is names:
            return last
        try:
            found = list(map(table.answers.__getitem__, names))
        except KeyError:
            unknown = itertools.repeat(REFUSED[Reason.NODE_UNKNOWN])
            found = list(map(table.answers.get, names, unknown))
        said = NodeResults(names, found, CacheVersion(version=version, rooms=rooms))
        if len(names) > 1:  # bind asks one node, beside those questions
            self._last = _Asked(table=table, said=said)
        return said

    def _table(self, shape: PodRequest) -> ResultTable:
        """Return the answers to a shape, as they are at some moment from now on."""
        with self._view.lock:
            table = self._tables.of(shape)
            if table.version == self._view.version:
                return table
        with table.turn:  # whoever asks the same waits for the answers instead of searching, too
            self._update(table, shape)
        return table

    def _update(self, table: ResultTable, shape: PodRequest) -> None:
        view = self._view
        with view.lock:
            version, nodes = view.version, view.node_count
            if table.version == version:
                return
            changed = view.changed_after(table.version[0])
            names = view.node_names if table.version[1] != version[1] else None
        if names is not None:
            table.keep(names)
        table.shrink(nodes)
        self._states.shrink(nodes)
        said: dict[str, NodeResult] = {}
        for base, node in view.states(changed):
            if shape.uuids != ANY:
                said[node.name] = self._ask(table, node, shape)
                continue
            state = self._states.of(base, node)
            answer = table.by_state.get(state)
            if answer is None:
                answer = table.by_state[state] = self._ask(table, node, shape)
            said[node.name] = answer
        table.take(said)
        table.version = version
        with view.lock:
            self._tables.count(shape, table)

    def _ask(
        self, table: ResultTable, node: Node, shape: PodRequest, placer: Placer | None = None
    ) -> NodeResult:
        found = (placer or self._place)(node, shape)
        if isinstance(found, Refusal):
            return REFUSED[found.reason]
        strategy = self._policy.read(shape).node_strategy
        rank = self._policy.increase(node, found), self._policy.fullness(node, strategy)
        return table.fitting(rank, found, tuple(sorted(amounts(node, found).items())))

    # The quota.

    def _limit(self, pod: PodState, names: Sequence[str], found: list[NodeResult]) -> None:
        """Replace the answers that the quota of the pod's namespace forbids."""
        verdicts: dict[object, Reason | None] = {}
        mended: dict[object, NodeResult] = {}
        for at, (name, answer) in enumerate(zip(names, found, strict=True)):
            base = self._view.base(name)
            if base is None or answer.like is None:
                continue
            # What the quota looks at: the many nodes of a cluster differ in little of it.
            looked_at = base.pool, answer.held
            if looked_at not in verdicts:
                with self._view.lock:
                    limits = self._view.quota, self._view.usage, pod.namespace
                    verdicts[looked_at] = forbids(*limits, base, answer.like, without=(pod.uid,))
            reason = verdicts[looked_at]
            if reason is not None:
                found[at] = self._mend(pod, base, reason, mended)

    def _mend(
        self, pod: PodState, base: Node, reason: Reason, mended: dict[object, NodeResult]
    ) -> NodeResult:
        """Ask a node of several models again, for cards that the quota allows."""
        models = {card.model for card in base.cards}
        node = self.node(pod, base.name)
        if reason is Reason.POOL_FORBIDDEN or len(models) < 2 or node is None:
            return REFUSED[reason]
        who = base.name if _shape(pod).uuids != ANY else ""
        alike = base.pool, self._states.of(base, node), who
        if alike not in mended:
            mended[alike] = self._ask(ResultTable(), node, _shape(pod), self.within_quota(pod))
        return mended[alike]

    def within_quota(self, pod: PodState, usage: Usage | None = None) -> Placer:
        """Return what asks a node for the pod, and keeps to the quota of its namespace.

        ``usage`` is what the namespace holds; left out, what it holds now.
        """
        used = self._view.usage_of(pod.namespace) if usage is None else usage
        quota = self._view.quota
        return within(quota, used, pod.namespace, self._policy, without=(pod.uid,))

    def _place(self, node: Node, request: PodRequest) -> Placement | Refusal:
        return place(node, request, self._policy)


def _shape(pod: PodState) -> PodRequest:
    if pod.shape is None:
        raise ValueError(f"pod {pod.full_name} asks for no GPU")
    return pod.shape


def _named(placement: Placement, request: PodRequest) -> Placement:
    """Return a placement with the names of the pod's own containers."""
    containers = tuple(
        replace(each, name=asked.name)
        for each, asked in zip(placement.containers, request.containers, strict=True)
    )
    return replace(placement, containers=containers)
