"""What is remembered of answers, small enough for a hundred questions to five thousand nodes."""

import collections
import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gpustack.model.device import Node
from gpustack.model.explanation import REASON_WORDS, Reason
from gpustack.model.holding import ContainerPlacement, Placement
from gpustack.model.likeness import hardware
from gpustack.model.request import PodRequest

_MOST_ANSWERS: Final = 250_000  # in all tables together; some 60 MB
_FEWEST_TABLES: Final = 8
_SPARE: Final = 1000  # what is remembered at least, on the smallest of clusters


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
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
REFUSED: Final = {reason: Answer(reason=reason) for reason in Reason}
"""The one answer for each reason."""


@dataclass(slots=True, kw_only=True)
class Table:
    """The answers to one shape, true at one version of the view.

    Attributes:
        seen: that version.
        drops: how many nodes had been forgotten by then.
        answers: by node.
        by_state: the same by the number of the state that a node is in.
    """

    seen: int = -1
    drops: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)
    by_state: dict[int, Answer] = field(default_factory=dict)
    _kept: dict[object, Answer] = field(default_factory=dict)

    def take(self, said: Mapping[str, Answer]) -> None:
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

    def fitting(
        self,
        rank: tuple[int, tuple[int, ...]],
        placement: Placement,
        held: tuple[tuple[str, int], ...],
    ) -> Answer:
        """Return the one answer of these values."""
        like = replace(placement, node="", containers=tuple(map(_anonymous, placement.containers)))
        key = rank, like, like.gap, held
        answer = self._kept.get(key)
        if answer is None:
            answer = self._kept[key] = Answer(reason=None, rank=rank, like=like, held=held)
        return answer


def _anonymous(container: ContainerPlacement) -> ContainerPlacement:
    return replace(container, name="", uuids=("",) * len(container.uuids))


class Tables:
    """A table for each shape that was asked lately."""

    def __init__(self) -> None:
        self._tables: collections.OrderedDict[PodRequest, Table] = collections.OrderedDict()

    def of(self, shape: PodRequest, nodes: int) -> Table:
        """Return a shape's table, perhaps an empty one; the least recently asked go first."""
        table = self._tables.get(shape)
        if table is None:
            table = self._tables[shape] = Table()
            most = max(_FEWEST_TABLES, _MOST_ANSWERS // max(1, nodes))
            while len(self._tables) > most:
                self._tables.popitem(last=False)
        self._tables.move_to_end(shape)
        return table

    def clear(self) -> None:
        """Forget everything."""
        self._tables.clear()


class States:
    """Numbers for what nodes can be told apart by, beside their names and their cards' UUIDs."""

    def __init__(self) -> None:
        self._kinds: dict[object, int] = {}
        self._kind_of: dict[str, tuple[Node, int]] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._next = itertools.count()

    def of(self, base: Node, node: Node) -> int:
        """Return the number of a node's state; ``base`` is the node with nothing taken of it."""
        known = self._kind_of.get(base.name)
        if known is None or known[0] is not base:
            kind = self._kinds.setdefault(hardware(base), next(self._next))
            known = self._kind_of[base.name] = base, kind
        key = known[1], node.uses
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = next(self._next)
        return number

    def shrink(self, nodes: int) -> None:
        """Begin anew when states outnumber the nodes by far; no number is given twice."""
        if max(len(self._numbers), len(self._kind_of)) > 4 * nodes + _SPARE:
            self._kinds.clear()
            self._kind_of.clear()
            self._numbers.clear()
