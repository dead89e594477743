"""What is remembered of answers: a hundred questions to five thousand nodes, and no more bytes."""

import collections
import itertools
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from extender.cache.pods import request_bytes
from gpustack.model.equivalence import hardware
from gpustack.model.node import Node
from gpustack.model.placement import ContainerPlacement, Placement
from gpustack.model.refusal import REASON_WORDS, Reason
from gpustack.model.request import PodRequest

_MOST_BYTES: Final = 80 << 20  # of all tables together, as `Table.size_bytes` estimates them
_LARGEST_PART: Final = 4  # a table of a larger part of that serves one question and is forgotten
_NAME_BYTES: Final = 200  # of a node in a table: its name, and an entry of a dictionary
_STATE_BYTES: Final = 150
_CONTAINER_BYTES: Final = 400
_CARD_BYTES: Final = 16
_MOST_KIND_BYTES: Final = 32 << 20  # of the hardware that nodes are told apart by
_SPARE: Final = 1000  # what is remembered at least, on the smallest of clusters


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeResult:
    """What a node says to a pod; nodes that are alike share one.

    Attributes:
        reason: why the pod doesn't fit; None when it does.
        rank: the node's place in the policy's order, lowest first; names break ties.
        like: the placement, with neither the node's name nor its cards' UUIDs; None when there is
            none.
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


@dataclass(slots=True, kw_only=True)
class ResultTable:
    """The answers to one shape, true at one version of the view, or at a later one.

    Attributes:
        turn: held by who brings it up to date; never asked for by who holds the view's lock.
        version: that version, and how many nodes had been forgotten by then.
        answers: by node.
        by_state: the same by the number of the state that a node is in.
        shape_bytes: the size of the shape, which its user chooses.
        counted_bytes: its size when `ResultTables` counted it last.
    """

    turn: threading.Lock = field(default_factory=threading.Lock)
    version: tuple[int, int] = (-1, 0)
    shape_bytes: int = 0
    counted_bytes: int = 0
    answers: dict[str, NodeResult] = field(default_factory=dict)
    by_state: dict[int, NodeResult] = field(default_factory=dict)
    _kept: dict[object, NodeResult] = field(default_factory=dict)
    _kept_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes."""
        names, states = _NAME_BYTES * len(self.answers), _STATE_BYTES * len(self.by_state)
        return _CONTAINER_BYTES + self.shape_bytes + names + states + self._kept_bytes

    def take(self, said: Mapping[str, NodeResult]) -> None:
        """Replace what these nodes said."""
        if said.keys() <= self.answers.keys():
            self.answers.update(said)
            return
        # A question looks all names up, at a time when other programs have filled the caches: names
        # that lie wherever each node was read cost twice as much as names that lie side by side.
        answers = self.answers | dict(said)
        spelt = (name.encode("utf-8", "surrogatepass") for name in answers)
        copies = [str(each, "utf-8", "surrogatepass") for each in spelt]
        self.answers = dict(zip(copies, answers.values(), strict=True))

    def keep(self, names: Collection[str]) -> None:
        """Forget the nodes that are not among these."""
        self.answers = {name: each for name, each in self.answers.items() if name in names}

    def shrink(self, nodes: int) -> None:
        """Forget states and answers that outnumber the nodes by far."""
        if max(len(self.by_state), len(self._kept)) > 2 * nodes + _SPARE:
            self.by_state.clear()
            self._kept.clear()
            self._kept_bytes = 0

    def fitting(
        self,
        rank: tuple[int, tuple[int, ...]],
        placement: Placement,
        held: tuple[tuple[str, int], ...],
    ) -> NodeResult:
        """Return the one answer of these values."""
        like = replace(placement, node="", containers=tuple(map(_anonymous, placement.containers)))
        key = rank, like, like.gap, held
        answer = self._kept.get(key)
        if answer is None:
            answer = self._kept[key] = NodeResult(reason=None, rank=rank, like=like, held=held)
            cards = sum(len(each.minors) for each in like.containers)
            self._kept_bytes += _CONTAINER_BYTES * (1 + len(like.containers)) + _CARD_BYTES * cards
        return answer


def _anonymous(container: ContainerPlacement) -> ContainerPlacement:
    return replace(container, name="", uuids=("",) * len(container.uuids))


class ResultTables:
    """A table for each shape that was asked lately. Not locked: the view's lock is held."""

    def __init__(self) -> None:
        self._tables: collections.OrderedDict[PodRequest, ResultTable] = collections.OrderedDict()
        self._bytes = 0

    @property
    def size_bytes(self) -> int:
        """About how much memory all tables take."""
        return self._bytes

    def of(self, shape: PodRequest) -> ResultTable:
        """Return a shape's table, perhaps an empty one."""
        table = self._tables.get(shape)
        if table is None:
            table = self._tables[shape] = ResultTable(shape_bytes=request_bytes(shape))
        self._tables.move_to_end(shape)
        return table

    def count(self, shape: PodRequest, table: ResultTable) -> None:
        """Count a table that has grown; the least recently asked go where there is no room."""
        if self._tables.get(shape) is not table:
            return  # forgotten meanwhile
        size = table.size_bytes
        self._bytes += size - table.counted_bytes
        table.counted_bytes = size
        if size * _LARGEST_PART > _MOST_BYTES:
            self._forget(shape)
        while self._bytes > _MOST_BYTES:
            self._forget(next(iter(self._tables)))

    def clear(self) -> None:
        """Forget everything."""
        self._tables.clear()
        self._bytes = 0

    def _forget(self, shape: PodRequest) -> None:
        self._bytes -= self._tables.pop(shape).counted_bytes


class NodeStates:
    """Numbers for what nodes can be told apart by, beside their names and their cards' UUIDs.

    Safe from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kinds: dict[object, int] = {}
        self._kind_bytes = 0
        self._kind_of: dict[str, tuple[Node, int]] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._next = itertools.count()

    def of(self, base: Node, node: Node) -> int:
        """Return the number of a node's state; ``base`` is the node with nothing taken of it."""
        with self._lock:
            known = self._kind_of.get(base.name)
            if known is None or known[0] is not base:
                known = self._kind_of[base.name] = base, self._kind(base)
            key = known[1], node.uses
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers[key] = next(self._next)
            return number

    def _kind(self, base: Node) -> int:
        kind = hardware(base)
        if kind not in self._kinds:
            self._kinds[kind] = next(self._next)
            pairs = sum(len(row) for links in (base.links, base.paths) for row in links)
            self._kind_bytes += _CONTAINER_BYTES * (1 + len(base.cards)) + _CARD_BYTES * pairs
        return self._kinds[kind]

    def shrink(self, nodes: int) -> None:
        """Begin anew when states outnumber the nodes by far; no number is given twice."""
        with self._lock:
            many = max(len(self._numbers), len(self._kind_of)) > 4 * nodes + _SPARE
            if many or self._kind_bytes > _MOST_KIND_BYTES:
                self._kinds.clear()
                self._kind_of.clear()
                self._numbers.clear()
                self._kind_bytes = 0
