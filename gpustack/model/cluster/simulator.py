"""Many pods on many nodes, one after another: the same answers as `rank`, from memory.

Nodes that have the same hardware and the same uses answer alike, so an answer is remembered by
(state, request) and found again on every node in that state; a node that didn't change isn't asked
twice. This is the model's one place with state of its own: `Simulator` stands for a cluster while
pods come and go, and hands out frozen values.
"""

import bisect
import heapq
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpustack.model.equivalence import hardware, moved
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement, Placer, apply, release
from gpustack.model.policies.base import Policy
from gpustack.model.refusal import Refusal
from gpustack.model.request import ANY, PodRequest, Strategy
from gpustack.model.use import Use

_MOST_STATES: Final = 100_000  # some hundred megabytes; states that no node is in go first


Progress = Callable[[int, int], None]
"""Called with how many pods are done, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What a node in some state answers: its placement there (None: no) and what that costs it."""

    placement: Placement | None
    increase: int


_NO: Final = _Answer(placement=None, increase=0)


@dataclass(slots=True, kw_only=True)
class _State:
    """Nodes that nothing but their name and their cards' identity tells apart.

    Attributes:
        free: (cores, memory units) free of each healthy card.
        idle: how many of those are wholly free.
        answers: by number of the request.
        rooms: how many more pods, by request.
    """

    free: frozenset[tuple[int, int]]
    idle: int
    answers: dict[int, _Answer] = field(default_factory=dict)
    rooms: dict[PodRequest, int] = field(default_factory=dict)


_Rank = tuple[tuple[int, ...], str]  # a node's fullness, and its name


class Simulator:
    """A cluster under one policy."""

    def __init__(self, nodes: Iterable[Node], policy: Policy) -> None:
        """Begin with these nodes; two of one name are one too many.

        Raises:
            ValueError: two nodes have one name.
        """
        self._policy = policy
        self._nodes: dict[str, Node] = {}
        self._hardware: dict[str, int] = {}
        self._kinds: dict[object, int] = {}
        self._states: dict[tuple[int, tuple[Use, ...]], _State] = {}
        self._state_of: dict[str, _State] = {}
        self._orders: dict[Strategy, list[_Rank]] = {}
        self._requests: dict[PodRequest, int] = {}
        for node in nodes:
            if node.name in self._nodes:
                raise ValueError(f"two nodes are named {node.name!r}")
            self._nodes[node.name] = node
            self._hardware[node.name] = self._kinds.setdefault(hardware(node), len(self._kinds))
            self._state_of[node.name] = self._state(node)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes as they are now, by name."""
        return tuple(self._nodes[name] for name in sorted(self._nodes))

    def node(self, name: str) -> Node:
        """Return one node as it is now."""
        return self._nodes[name]

    def place(
        self,
        request: PodRequest,
        among: Iterable[str] | None = None,
        placer: Placer | None = None,
        barred: Container[str] = (),
    ) -> Placement | None:
        """Find the first of `rank`'s choices and take its cards; None where no node fits.

        Args:
            request: what the pod asks.
            among: the only nodes to look at; left out, all.
            placer: has the last word about a node that fits, and isn't remembered: a quota says yes
                today and no tomorrow. Nodes are asked in the order of the policy's own answers.
            barred: nodes that are out of the question.
        """
        request = self._policy.read(request)
        candidates = self._candidates(request.node_strategy, among)
        open_ones = (each for each in candidates if each[1] not in barred) if barred else candidates
        found = self._choose(request, open_ones, placer)
        if found is not None:
            self._put(apply(self._nodes[found.node], found))
        return found

    def release(self, placement: Placement) -> None:
        """Give a placement's cards back.

        Raises:
            ValueError: the placement holds more than is taken there.
        """
        self._put(release(self._nodes[placement.node], placement))

    def refusals(self, request: PodRequest, placer: Placer | None = None) -> Mapping[str, Refusal]:
        """Return why each node refuses, by name; nodes that would take the pod are left out."""
        request = self._policy.read(request)
        ask = placer or self.answer
        answers = ((name, ask(node, request)) for name, node in sorted(self._nodes.items()))
        return {name: each for name, each in answers if isinstance(each, Refusal)}

    def answer(self, node: Node, request: PodRequest) -> Placement | Refusal:
        """Return one node's answer under the policy: a placer."""
        return place(node, request, self._policy)

    def room(self, request: PodRequest) -> Mapping[str, int]:
        """Return how many more pods each node takes one after another, by name.

        Nodes fill up independently, so their sum is what placing until nothing fits comes to.
        """
        request = self._policy.read(request)
        return {name: self._room(name, request) for name in sorted(self._nodes)}

    def _room(self, name: str, request: PodRequest) -> int:
        state = self._state_of[name]
        if request.uuids != ANY:
            return self._filled(name, request)
        if request not in state.rooms:
            state.rooms[request] = self._filled(name, request)
        return state.rooms[request]

    def _filled(self, name: str, request: PodRequest) -> int:
        node = self._nodes[name]
        count = 0
        while isinstance(found := place(node, request, self._policy), Placement):
            node = apply(node, found)
            count += 1
        return count

    def _choose(
        self, request: PodRequest, candidates: Iterable[_Rank], placer: Placer | None
    ) -> Placement | None:
        for name, placement in self._by_preference(request, candidates):
            found = placement if placer is None else placer(self._nodes[name], request)
            if isinstance(found, Placement):
                return moved(self._nodes[name], found)
        return None

    def _by_preference(
        self, request: PodRequest, candidates: Iterable[_Rank]
    ) -> Iterator[tuple[str, Placement]]:
        """Yield the nodes that fit, the first choice first, with their (or a like node's) answer.

        Lazily: mostly the first one is taken, and a placer that costs more than a look into the
        memory isn't asked about a thousand others.
        """
        number = self._requests.setdefault(request, len(self._requests))
        weighed: list[tuple[int, int, str, Placement]] = []
        for place_in_order, (_, name) in enumerate(candidates):
            answer = self._state_of[name].answers.get(number)
            if answer is None or request.uuids != ANY:
                answer = self._state_of[name].answers[number] = self._ask(name, request)
            if answer.placement is None:
                continue
            if self._policy.weighs_placements:
                # No two places in order are equal, so placements are never compared.
                weighed.append((answer.increase, place_in_order, name, answer.placement))
            else:
                yield name, answer.placement
        heapq.heapify(weighed)
        while weighed:
            _, _, name, placement = heapq.heappop(weighed)
            yield name, placement

    def _ask(self, name: str, request: PodRequest) -> _Answer:
        node = self._nodes[name]
        if not _may_fit(self._state_of[name], request):
            return _NO
        found = self.answer(node, request)
        if isinstance(found, Refusal):
            return _NO
        return _Answer(placement=found, increase=self._policy.increase(node, found))

    def _candidates(self, strategy: Strategy, among: Iterable[str] | None) -> Iterable[_Rank]:
        if among is not None:
            return sorted(self._place_in_order(name, strategy) for name in set(among))
        if strategy not in self._orders:
            places = (self._place_in_order(name, strategy) for name in self._nodes)
            self._orders[strategy] = sorted(places)
        return self._orders[strategy]

    def _place_in_order(self, name: str, strategy: Strategy) -> _Rank:
        return self._policy.fullness(self._nodes[name], strategy), name

    def _put(self, node: Node) -> None:
        """Replace a node by what became of it."""
        for strategy, order in self._orders.items():
            del order[bisect.bisect_left(order, self._place_in_order(node.name, strategy))]
        self._nodes[node.name] = node
        for strategy, order in self._orders.items():
            bisect.insort(order, self._place_in_order(node.name, strategy))
        self._state_of[node.name] = self._state(node)

    def _state(self, node: Node) -> _State:
        if len(self._states) >= _MOST_STATES:
            used = {id(state) for state in self._state_of.values()}
            self._states = {key: each for key, each in self._states.items() if id(each) in used}
        key = self._hardware[node.name], node.uses
        if key not in self._states:
            healthy = [index for index, card in enumerate(node.cards) if card.healthy]
            free = ((node.free_cores(i), node.free_memory_units(i)) for i in healthy)
            idle = sum(1 for index in healthy if node.uses[index].idle)
            self._states[key] = _State(free=frozenset(free), idle=idle)
        return self._states[key]


def _may_fit(state: _State, request: PodRequest) -> bool:
    """Say no only where `place` is sure to: some container alone finds no room. Saves the search.

    Most questions to a full cluster end here.
    """
    for container in request.containers:
        if not container.is_share:
            if container.whole_cards > state.idle:
                return False
        elif not any(
            cores >= container.cores and memory >= container.memory_units
            for cores, memory in state.free
        ):
            return False
    return True
