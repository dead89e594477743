"""What every node says to a pod, from memory.

An answer is remembered by what is asked (``PodState.shape``) and by the node's version, so a
question asked before costs the nodes that changed since. Nodes of the same hardware and the same
uses answer alike and are asked once for all. What can't be remembered, because it depends on the
pod itself or changes by itself, is applied after: the pod's own cards count as free, pods that the
scheduler makes room for go first, and the quota of the namespace.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from extender.state.answered import Answered
from extender.state.memory import REFUSED, Answer, States, Table, Tables
from extender.state.pods import PodState
from extender.state.view import ClusterView
from gpustack.model.device import Node
from gpustack.model.explanation import Reason, Refusal
from gpustack.model.holding import Placement, apply
from gpustack.model.likeness import moved
from gpustack.model.placement import place
from gpustack.model.policies import EXACT, Policy
from gpustack.model.quota import Placer, amounts, check, within
from gpustack.model.request import ANY, PodRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A question, and what was said to it when its table was at this version of the view."""

    table: Table
    version: tuple[int, int]
    said: Answered


class Answers:
    """Asks nodes under one policy. Hold the view's lock from a question to what follows from it."""

    def __init__(self, view: ClusterView, policy: Policy = EXACT) -> None:
        self._view = view
        self._policy = policy
        self._tables = Tables()
        self._states = States()
        self._last = _Asked(table=Table(), version=(0, 0), said=Answered((), ()))

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

    def of(self, pod: PodState, names: Sequence[str]) -> Answered:
        """Return what each of these nodes says to a pod that asks for a GPU."""
        with self._view.lock:
            remembered = self._remembered(self._table(_shape(pod)), names)
            special, limited = self._special(pod), self._view.quota.of(pod.namespace) is not None
            if not special and not limited:
                return remembered
            found = list(remembered.answers)
            if special:
                self._ask_anew(pod, names, found, special)
            if limited:
                self._limit(pod, names, found)
            return Answered(names, found)

    def placement(self, pod: PodState, name: str, answer: Answer) -> Placement:
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
        with self._view.lock:
            node = self.node(pod, name)
            if node is None:
                return Refusal(reason=Reason.NODE_UNKNOWN)
            found = self.within_quota(pod)(node, pod.request or _shape(pod))
            return found if isinstance(found, Refusal) else None

    def node(self, pod: PodState, name: str) -> Node | None:
        """Return a node as this pod finds it: its own cards free, those of others' turns taken."""
        node = self._view.node(name, without=pod.uid)
        first = self._view.nominees_before(pod, name) if node is not None else []
        if node is None or not first:
            return node
        # Room is made for them: what pods hold that are about to end is theirs as well.
        leaving = [uid for uid in self._view.holders(name) if self._leaves(uid)]
        free = self._view.node_without(name, (*leaving, pod.uid))
        for asked in (other.request for other in first):
            plan = None if free is None or asked is None else self._place(free, asked)
            if free is not None and isinstance(plan, Placement):
                free, node = apply(free, plan), apply(node, plan)
        return node

    def _leaves(self, uid: str) -> bool:
        pod = self._view.pod(uid)
        return pod is not None and pod.deletion

    def _special(self, pod: PodState) -> set[str]:
        """Return the nodes whose answer to this pod isn't that to its shape."""
        found = {
            name for name in self._view.nominated_nodes if self._view.nominees_before(pod, name)
        }
        held = self._view.placement(pod.uid)
        if held is not None:
            found.add(held.node)
        return found

    def _ask_anew(
        self, pod: PodState, names: Sequence[str], found: list[Answer], special: set[str]
    ) -> None:
        """Replace what is remembered of these nodes by what they say to this very pod."""
        for at, name in enumerate(names):
            node = self.node(pod, name) if name in special else None
            if node is not None:
                found[at] = self._ask(Table(), node, _shape(pod))

    # The memory.

    def _remembered(self, table: Table, names: Sequence[str]) -> Answered:
        """Return what nodes say to a table's shape."""
        asked, version = self._last, (table.seen, table.drops)
        # prioritize names the nodes that filter has just named.
        if asked.table is table and asked.version == version and asked.said.names is names:
            return asked.said
        try:
            found = list(map(table.answers.__getitem__, names))
        except KeyError:
            unknown = itertools.repeat(REFUSED[Reason.NODE_UNKNOWN])
            found = list(map(table.answers.get, names, unknown))
        said = Answered(names, found)
        if len(names) > 1:  # bind asks one node, beside those questions
            self._last = _Asked(table=table, version=version, said=said)
        return said

    def _table(self, shape: PodRequest) -> Table:
        """Return the answers to a shape as they are now."""
        table = self._tables.of(shape, self._view.node_count)
        if (table.seen, table.drops) != self._view.version:
            self._update(table, shape)
        return table

    def _update(self, table: Table, shape: PodRequest) -> None:
        (version, drops), nodes = self._view.version, self._view.node_count
        if table.drops != drops:
            table.keep(self._view.node_names)
        table.shrink(nodes)
        self._states.shrink(nodes)
        said: dict[str, Answer] = {}
        for node in self._view.changed_after(table.seen):
            if shape.uuids != ANY:
                said[node.name] = self._ask(table, node, shape)
                continue
            state = self._states.of(self._view.base(node.name) or node, node)
            answer = table.by_state.get(state)
            if answer is None:
                answer = table.by_state[state] = self._ask(table, node, shape)
            said[node.name] = answer
        table.take(said)
        table.seen, table.drops = version, drops

    def _ask(
        self, table: Table, node: Node, shape: PodRequest, placer: Placer | None = None
    ) -> Answer:
        found = (placer or self._place)(node, shape)
        if isinstance(found, Refusal):
            return REFUSED[found.reason]
        strategy = self._policy.read(shape).node_strategy
        rank = self._policy.increase(node, found), self._policy.fullness(node, strategy)
        return table.fitting(rank, found, tuple(sorted(amounts(node, found).items())))

    # The quota.

    def _limit(self, pod: PodState, names: Sequence[str], found: list[Answer]) -> None:
        """Replace the answers that the quota of the pod's namespace forbids."""
        verdicts: dict[object, Reason | None] = {}
        mended: dict[object, Answer] = {}
        for at, (name, answer) in enumerate(zip(names, found, strict=True)):
            base = self._view.base(name)
            if base is None or answer.like is None:
                continue
            # What the quota looks at: the many nodes of a cluster differ in little of it.
            looked_at = base.pool, answer.held
            if looked_at not in verdicts:
                verdicts[looked_at] = self._verdict(pod, base, answer.like)
            reason = verdicts[looked_at]
            if reason is not None:
                found[at] = self._mend(pod, base, reason, mended)

    def _verdict(self, pod: PodState, node: Node, like: Placement) -> Reason | None:
        view, placement = self._view, moved(node, like)
        no = check(view.quota, view.usage, pod.namespace, node, placement, without=(pod.uid,))
        return None if no is None else no.reason

    def _mend(
        self, pod: PodState, base: Node, reason: Reason, mended: dict[object, Answer]
    ) -> Answer:
        """Ask a node of several models again, for cards that the quota allows."""
        models = {card.model for card in base.cards}
        node = self.node(pod, base.name)
        if reason is Reason.POOL_FORBIDDEN or len(models) < 2 or node is None:
            return REFUSED[reason]
        who = base.name if _shape(pod).uuids != ANY else ""
        alike = base.pool, self._states.of(base, node), who
        if alike not in mended:
            mended[alike] = self._ask(Table(), node, _shape(pod), self.within_quota(pod))
        return mended[alike]

    def within_quota(self, pod: PodState) -> Placer:
        """Return what asks a node for the pod, and keeps to the quota of its namespace."""
        view = self._view
        return within(view.quota, view.usage, pod.namespace, self._policy, without=(pod.uid,))

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
