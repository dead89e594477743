"""What every node says to a pod, from memory.

An answer is remembered by what is asked (``PodState.shape``) and by the state that a node is in
(`equivalence`). What depends on the pod itself is applied after: its own cards count as free,
nominated pods go first, and the namespace's quota.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from extender.cache import nominated
from extender.cache.cache import ClusterCache
from extender.cache.node_results import NOT_SEARCHED, NodeResults, given_up
from extender.cache.nominated import NodeAfterTurns, NodeInTurn, NodesAfterTurns
from extender.cache.pods import PodState
from extender.cache.search_time import SearchTime
from gpustack.model.equivalence import (
    REFUSED,
    EquivalenceCache,
    NodeResult,
    ResultTable,
    hardware,
    moved,
    result_of,
)
from gpustack.model.lru import LRUCache
from gpustack.model.node import Node
from gpustack.model.place import place, within
from gpustack.model.placement import Placement, Placer
from gpustack.model.policies import EXACT, Policy
from gpustack.model.quota.check import Violation, check_amounts, others_may_do
from gpustack.model.quota.usage import Usage
from gpustack.model.refusal import Reason, Refusal
from gpustack.model.request import ANY, PodRequest

_MOST_LOOKS: Final = 5  # at a node that changes while it is looked at
_BEGINS_BYTES: Final = 4 << 20
_NUMBERS_SECONDS: Final = 0.02  # for other cards within the quota; people wait for the words


class NodeEvaluator:
    """Asks nodes under one policy.

    No search is made under the cache's lock: its holder calls ``holds`` and ``placement`` only.
    What a node says is true of a moment after the question was asked, another one for each node; a
    decision takes the lock, and asks whether the answer ``holds``.
    """

    def __init__(self, view: ClusterCache, policy: Policy = EXACT) -> None:
        self._view = view
        self._results = _cache(policy)
        self._after_turns = NodesAfterTurns()
        self._last: tuple[ResultTable | None, NodeResults] = None, NodeResults((), ())
        # The node from which on a namespace's pods of a shape ask again for the quota.
        self._begins: LRUCache[tuple[str, PodRequest], str] = LRUCache(_BEGINS_BYTES)

    @property
    def policy(self) -> Policy:
        """In which order nodes and cards are tried."""
        return self._results.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        if policy != self.policy:
            self._results, self._after_turns = _cache(policy), NodesAfterTurns()

    def of(
        self, pod: PodState, names: Sequence[str], time: SearchTime | None = None
    ) -> NodeResults:
        """Return what each node says to a pod that asks for a GPU, as far as the time goes."""
        rooms, time = self._view.rooms, time or SearchTime()
        said = self._remembered(pod, names, rooms, time)
        here, limited = self._here(pod), self._view.quota.of(pod.namespace) is not None
        if not here and not limited:
            return said
        found = list(said.answers)
        there = (at for at, name in enumerate(names) if name in here) if here else ()
        for at in sorted(there, key=lambda at: names[at] != pod.nominated):
            found[at] = self._in_turn(pod, here[names[at]], time)
        if limited:
            self._limit(pod, names, found, time)
        turns = {name: each.turns for name, each in here.items()}
        return NodeResults(names, found, version=said.version, rooms=rooms, turns=turns)

    def holds(self, pod: PodState, said: NodeResults, name: str) -> bool:
        """Say whether a node's answer is true now, but for the quota. Hold the view's lock."""
        version = self._view.allocations.versions.get(name, said.version + 1)
        found = self._view.node_in_turn(pod, name)
        turns = () if found is None else found.turns
        return version <= said.version and turns == said.turns.get(name, ())

    def placement(self, pod: PodState, name: str, answer: NodeResult) -> Placement:
        """Return an answer's placement as this pod's on this node.

        Raises:
            ValueError: the answer is a refusal.
        """
        base = self._view.base(name)
        if base is None or answer.like is None or pod.request is None:
            raise ValueError(f"node {name} has no cards for pod {pod.full_name}")
        return moved(base, pod.request, answer.like)

    def refusal(self, pod: PodState, name: str) -> Refusal | None:
        """Return a node's refusal with its numbers, None when it has room; costs a few searches."""
        if (node := self.node(pod, name)) is None:
            return Refusal(reason=Reason.NODE_UNKNOWN)
        with SearchTime(_NUMBERS_SECONDS) as time:
            found = self.within_quota(pod, goes_on=time.goes_on)(node, pod.request or _shape(pod))
        return found if isinstance(found, Refusal) else None

    def node(self, pod: PodState, name: str) -> Node | None:
        """Return a node as this pod finds it: its own cards free, those of others' turns taken."""
        found = self._view.node_in_turn(pod, name)
        if found is None or not found.first:
            return None if found is None else found.node
        return (self._after_turns.get(found) or self._let_in(found)).node

    def _let_in(self, found: NodeInTurn) -> NodeAfterTurns:
        """Return a node after the pods that go first took their cards; costs a search for each."""
        node = nominated.after_turns(found, self._results.placer)
        with self._view.lock:
            return self._after_turns.put(found, node, self._view.allocations.number(node))

    def node_and_holders(
        self, pod: PodState, name: str
    ) -> tuple[Node, Mapping[str, Placement]] | None:
        """Return a node as this pod finds it and its holders then; None: unknown, or changing."""
        for _ in range(_MOST_LOOKS):
            with self._view.lock:
                version, held = self._view.allocations.versions.get(name), self._view.holders(name)
            node = self.node(pod, name)
            if version == self._view.allocations.versions.get(name):
                return None if node is None else (node, held)
        return None

    def _here(self, pod: PodState) -> Mapping[str, NodeInTurn]:
        """Return the nodes whose answer to this pod isn't that to its shape."""
        held = self._view.placement(pod.uid)
        names = {*self._view.nominated_nodes, *(() if held is None else (held.node,))}
        found = {name: self._view.node_in_turn(pod, name) for name in names}
        return {name: each for name, each in found.items() if each and (each.first or each.own)}

    def _remembered(
        self, pod: PodState, names: Sequence[str], rooms: int, time: SearchTime
    ) -> NodeResults:
        """Return what nodes say to a pod's shape; a node whose state is new is asked."""
        shape, results, allocations = _shape(pod), self._results, self._view.allocations
        with self._view.lock:
            version, table = allocations.version, results.table(shape)
            # Like nodes don't answer alike to a pod that names UUIDs.
            states = allocations.states if shape.uuids == ANY else allocations.versions
        # prioritize names the nodes that filter has just named.
        known, last = self._last
        if known is table and last.version == version and last.names is names:
            return last
        found: list[NodeResult] = []
        looking_up = map(table.by_state.__getitem__, map(states.__getitem__, names))
        while len(found) < len(names):
            try:
                found.extend(looking_up)  # no line of Python is run for a node that is known
            except KeyError:
                rest = given_up(table.by_state, states, names, len(found), time)
                found.extend(rest or [self._first(table, pod, names[len(found)], time)])
        if table.has_grown:
            with self._view.lock:
                now = set(states.values())
            results.count(table, now)
        said = NodeResults(names, found, version=version, rooms=rooms)
        if len(names) > 1 and not time.ran_out:  # bind asks one node, beside those questions
            self._last = table, said
        return said

    def _first(self, table: ResultTable, pod: PodState, name: str, time: SearchTime) -> NodeResult:
        """Return what a node in a new state says; it costs a search at most."""
        allocations, by_name = self._view.allocations, table.request.uuids != ANY
        if time.is_over(of_node=self._view.hardware_changes.over(name, pod.namespace)):
            return NOT_SEARCHED
        with time, self._view.hardware_changes.search(name, pod.namespace):
            with self._view.lock:
                node = allocations.node(name)
                if node is None:
                    return REFUSED[Reason.NODE_UNKNOWN]
                state = allocations.versions[name] if by_name else allocations.state(name)
            return table.ask(state, node)

    def _in_turn(self, pod: PodState, found: NodeInTurn, time: SearchTime) -> NodeResult:
        """Return what a node says behind others; what is remembered of it takes no time."""
        table = self._results.table(_shape(pod))
        if not found.first or table.request.uuids != ANY:
            said = self._ask(pod, found.node.name, self._results.placer, time)
            return said or REFUSED[Reason.NODE_UNKNOWN]
        after = self._after_turns.get(found)
        answer = None if after is None else table.by_state.get(after.state)
        if answer is not None:
            return answer
        if time.is_over(of_node=self._view.hardware_changes.over(found.node.name, pod.namespace)):
            return NOT_SEARCHED
        with time, self._view.hardware_changes.search(found.node.name, pod.namespace):
            after = after or self._let_in(found)
            return table.ask(after.state, after.node)

    def _ask(self, pod: PodState, name: str, placer: Placer, time: SearchTime) -> NodeResult | None:
        """Return what a node says to this very pod; None where it isn't known."""
        if time.is_over(of_node=self._view.hardware_changes.over(name, pod.namespace)):
            return NOT_SEARCHED
        with time, self._view.hardware_changes.search(name, pod.namespace):
            node = self.node(pod, name)
            if node is None:
                return None
            return result_of(node, _shape(pod), self.policy, placer(node, _shape(pod)))

    # The quota.

    def _limit(
        self, pod: PodState, names: Sequence[str], found: list[NodeResult], time: SearchTime
    ) -> None:
        """Replace the answers that the quota of the pod's namespace forbids."""
        verdicts: dict[object, tuple[Violation | None, bool]] = {}
        forbidden: list[tuple[str, int, Node]] = []
        for at, (name, answer) in enumerate(zip(names, found, strict=True)):
            base = self._view.base(name)
            if base is None or answer.like is None:
                continue
            # What the quota looks at: the many nodes of a cluster differ in little of it. A node
            # whose models have changed since its answer must not speak for the others.
            looked_at = base.pool, answer.held
            if looked_at not in verdicts:
                with self._view.lock:
                    limits = self._view.quota, self._view.usage, pod.namespace
                    asked = *limits, base, dict(answer.held)
                    broken = check_amounts(*asked, without=(pod.uid,))
                    others = others_may_do(*asked, request=_shape(pod), without=(pod.uid,))
                verdicts[looked_at] = broken, others
            broken, others = verdicts[looked_at]
            if broken is None:
                continue
            found[at] = REFUSED[broken.reason]
            others = others or len({card.model for card in base.cards}) > 1
            if others and broken.reason is not Reason.POOL_FORBIDDEN:
                forbidden.append((name, at, base))
        # These answers aren't remembered: where time is short, the next question goes on.
        begin = self._begins.get(key := (pod.namespace, _shape(pod))) or ""
        forbidden.sort(key=lambda each: (each[0] < begin, each[0]))
        mended: dict[object, NodeResult] = {}
        for _, at, base in forbidden:
            found[at] = self._mend(pod, base, mended, time)
        rest = [number for number, (_, at, _) in enumerate(forbidden) if found[at] is NOT_SEARCHED]
        if rest:  # the very first takes more time than a question has, or the node's own is over
            first, _, _ = forbidden[rest[0] or 1 % len(forbidden)]
            self._begins.put(key, first, key[1].size_bytes)

    def _mend(
        self, pod: PodState, base: Node, mended: dict[object, NodeResult], time: SearchTime
    ) -> NodeResult:
        """Ask a node again, for cards that the quota allows."""
        if time.is_over():
            return NOT_SEARCHED
        if (node := self.node(pod, base.name)) is None:
            return REFUSED[Reason.NODE_UNKNOWN]
        alike = base.pool, hardware(node), node.uses, "" if _shape(pod).uuids == ANY else base.name
        if alike in mended:
            return mended[alike]
        placer = self.within_quota(pod, goes_on=time.goes_on)
        asked = self._ask(pod, base.name, placer, time) or REFUSED[Reason.NODE_UNKNOWN]
        # A search that was ended, or not made of this very node, refuses nothing.
        if asked is NOT_SEARCHED or (asked.reason is not None and time.was_ended):
            return NOT_SEARCHED
        return mended.setdefault(alike, asked)

    def violation(self, pod: PodState, name: str) -> Violation | None:
        """Return what a node's answer breaks of the quota; costs a search where it isn't known."""
        (answer,) = self._remembered(pod, (name,), self._view.rooms, SearchTime()).answers
        base = self._view.base(name)
        if base is None or answer.like is None:
            return None
        limits = self._view.quota, self._view.usage_of(pod.namespace), pod.namespace
        return check_amounts(*limits, base, dict(answer.held), without=(pod.uid,))

    def within_quota(
        self,
        pod: PodState,
        usage: Usage | None = None,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> Placer:
        """Return a placer that keeps to the namespace's quota; ``usage`` is what it holds."""
        used = self._view.usage_of(pod.namespace) if usage is None else usage
        limits = self._view.quota, used, pod.namespace, self.policy
        return within(*limits, without=(pod.uid,), goes_on=goes_on)


def _cache(policy: Policy) -> EquivalenceCache:
    return EquivalenceCache(policy, partial(place, policy=policy), threading.Lock)


def _shape(pod: PodState) -> PodRequest:
    if pod.shape is None:
        raise ValueError(f"pod {pod.full_name} asks for no GPU")
    return pod.shape
