"""The equivalence cache: what nodes answered to a request, by the state that each is in.

Nodes of the same hardware and the same uses answer alike, whatever they and their cards are called.
So an answer is remembered by the number of a node's state, and a placement found on one node is
moved to another by its name and its cards' UUIDs. A request that names UUIDs needs a number for
each node (`NodeStates` doesn't give those). How much is remembered is bounded by bytes.
"""

import contextlib
import itertools
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final

from gpustack.model.lru import LRUCache
from gpustack.model.node import Node
from gpustack.model.placement import Placement, Placer
from gpustack.model.policies.base import Policy
from gpustack.model.quota.usage import amounts
from gpustack.model.refusal import REASON_WORDS, Reason, Refusal
from gpustack.model.request import PodRequest

_MOST_BYTES: Final = 80 << 20  # of all tables together, as `ResultTable.size_bytes` estimates them
_LARGEST_PART: Final = 4  # a table of a larger part of that serves one question and is forgotten
_MOST_STATE_BYTES: Final = 32 << 20  # of what states are told apart by
_UNCOUNTED: Final = 1.1  # a table grows by a tenth before it is counted again
_SPARE: Final = 1000  # states that a table keeps at least, on the smallest of clusters
_STATE_BYTES: Final = 150
_CONTAINER_BYTES: Final = 400
_CARD_BYTES: Final = 16
_USE_BYTES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeResult:
    """What a node answers to a request; nodes that are alike share one.

    Attributes:
        reason: why the pod doesn't fit; None when it does.
        rank: what the placement costs the node, and the node's fullness: lowest first.
        like: the placement on one of them, which `moved` makes another's.
        held: hundredths of a card that the placement holds, by model.
    """

    reason: Reason | None
    rank: tuple[int, tuple[int, ...]] = (0, ())
    like: Placement | None = None
    held: tuple[tuple[str, int], ...] = ()

    @property
    def words(self) -> str:
        """What the scheduler shows for a refusal: the same for every node of this reason."""
        return _WORDS[self.reason] if self.reason is not None else ""


_WORDS: Final = {reason: f"{reason}: {words}" for reason, words in REASON_WORDS.items()}
REFUSED: Final = {reason: NodeResult(reason=reason) for reason in Reason}
"""The one answer for each reason."""


def hardware(node: Node) -> object:
    """Return what `place` looks at of a node beside its uses, when no UUIDs are asked for."""
    cards = tuple((c.minor, c.model, c.memory_bytes, c.numa, c.healthy) for c in node.cards)
    return cards, node.links, node.paths


def result_of(
    node: Node, request: PodRequest, policy: Policy, found: Placement | Refusal
) -> NodeResult:
    """Return what a node answers that gives a pod this placement, or refuses it."""
    if isinstance(found, Refusal):
        return REFUSED[found.reason]
    strategy = policy.read(request).node_strategy
    return NodeResult(
        reason=None,
        rank=(policy.increase(node, found), policy.fullness(node, strategy)),
        like=found,
        held=tuple(sorted(amounts(node, found).items())),
    )


def moved(node: Node, request: PodRequest, like: Placement) -> Placement:
    """Return a remembered placement as this node's and this request's: names and UUIDs.

    A card that the node has lost since gets an empty UUID.
    """
    uuids = {card.minor: card.uuid for card in node.cards}
    containers = tuple(
        replace(each, name=asked.name, uuids=tuple(uuids.get(minor, "") for minor in each.minors))
        for each, asked in zip(like.containers, request.containers, strict=True)
    )
    return replace(like, node=node.name, containers=containers)


class NodeStates:
    """Numbers for the states of nodes, none given twice. Not locked: its owner is."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._next = itertools.count()
        self._bytes = 0

    def hardware(self, node: Node) -> int:
        """Return the number of a node's hardware."""
        pairs = sum(len(row) for links in (node.links, node.paths) for row in links)
        size = _CONTAINER_BYTES * (1 + len(node.cards)) + _CARD_BYTES * pairs
        return self._number(hardware(node), size)

    def state(self, hardware: int, node: Node) -> int:
        """Return the number of a node's state; its owner knows the number of the hardware."""
        return self._number((hardware, node.uses), _STATE_BYTES + _USE_BYTES * len(node.uses))

    def _number(self, key: object, size_bytes: int) -> int:
        number = self._numbers.get(key)
        if number is None:
            if self._bytes + size_bytes > _MOST_STATE_BYTES:
                self._numbers.clear()
                self._bytes = 0
            number = self._numbers[key] = next(self._next)
            self._bytes += size_bytes
        return number


class ResultTable:
    """The answers to one request under one policy, by the number of the node's state."""

    def __init__(
        self,
        request: PodRequest,
        policy: Policy,
        placer: Placer,
        lock: AbstractContextManager[object],
    ) -> None:
        self.request = request
        self.by_state: dict[int, NodeResult] = {}
        self.counted_bytes = 0  # its size when `EquivalenceCache` counted it last
        self._policy = policy
        self._placer = placer
        self._lock = lock
        self._own_bytes = _CONTAINER_BYTES + request.size_bytes
        self._shared: dict[object, NodeResult] = {}
        self._shared_bytes = 0

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes."""
        return self._own_bytes + _STATE_BYTES * len(self.by_state) + self._shared_bytes

    @property
    def has_grown(self) -> bool:
        """It is to be counted again."""
        return self.size_bytes > _UNCOUNTED * self.counted_bytes

    def ask(self, state: int, node: Node) -> NodeResult:
        """Return the answer of a node that is in this state, which costs a search at most."""
        with self._lock:  # a second thread waits for the answer instead of searching, too
            found = self.by_state.get(state)
            if found is None:
                placement = self._placer(node, self.request)
                found = self._share(result_of(node, self.request, self._policy, placement))
                self.by_state[state] = found
            return found

    def _share(self, result: NodeResult) -> NodeResult:
        """Return the one answer of these values."""
        if result.like is None:
            return result
        minors = tuple(each.minors for each in result.like.containers)
        key = result.rank, result.held, result.like.gap, minors
        known = self._shared.setdefault(key, result)
        if known is result:
            cards = sum(map(len, minors))
            self._shared_bytes += _CONTAINER_BYTES * (1 + len(minors)) + _CARD_BYTES * cards
        return known

    def keep(self, states: Collection[int]) -> None:
        """Forget the answers of all but these states."""
        with self._lock:
            kept = {each: self.by_state[each] for each in states if each in self.by_state}
            self._shared, self._shared_bytes = {}, 0
            self.by_state = {state: self._share(each) for state, each in kept.items()}


class EquivalenceCache:
    """A table for each request that was asked lately; as safe from threads as its tables' locks."""

    def __init__(
        self,
        policy: Policy,
        placer: Placer,
        lock: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        """Start empty; `placer` places under the policy, and `lock` makes a table's lock."""
        self.policy: Final = policy
        self.placer: Final = placer
        self._lock = lock
        self._tables: LRUCache[PodRequest, ResultTable] = LRUCache(_MOST_BYTES, _LARGEST_PART)

    @property
    def size_bytes(self) -> int:
        """About how much memory all tables take."""
        return self._tables.size_bytes

    def table(self, request: PodRequest) -> ResultTable:
        """Return a request's table, perhaps an empty one."""
        return self._tables.get_or_make(
            request,
            lambda: ResultTable(request, self.policy, self.placer, self._lock()),
            lambda made: made.size_bytes,
        )

    def count(self, table: ResultTable, states: Collection[int]) -> None:
        """Count a table that has grown; the least recently asked go where there is no room.

        Where states that no node is in outnumber `states`, those of the nodes now, they go as well.
        """
        if len(table.by_state) > 2 * len(states) + _SPARE:
            table.keep(states)
        table.counted_bytes = table.size_bytes
        self._tables.put(table.request, table, table.counted_bytes)
