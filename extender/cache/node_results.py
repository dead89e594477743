"""What some nodes said to a pod, all of them together.

A question names thousands of nodes, which share a few answers. Readers look at each answer once,
and run no line of Python for a single node where they can.
"""

import collections
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from extender.cache.search_time import SearchTime
from gpustack.model.equivalence import REFUSED, NodeResult
from gpustack.model.quota.claim import Choice
from gpustack.model.refusal import Reason

NOT_SEARCHED: Final = REFUSED[Reason.NOT_SEARCHED]
_NO_STATE: Final = -1
_FEW_OF: Final = 8  # so many nodes one may have changed lately

Turns = tuple[tuple[str, int], ...]
"""The pods that go before a pod on a node and hold no cards yet, and those about to leave it."""


@dataclass(eq=False)
class NodeResults:
    """The answers to one question, in the order in which the nodes were named.

    What has changed since the question was asked may be missing in them.

    Attributes:
        names: the nodes.
        answers: in the same order.
        version: of the allocations, when the question was asked.
        rooms: how often cards may have become free by then.
        turns: of each node where the pod isn't answered as every pod of its shape.
    """

    names: Sequence[str]
    answers: Sequence[NodeResult]
    version: int = -1
    rooms: int = 0
    turns: Mapping[str, Turns] = field(default_factory=dict)

    @functools.cached_property
    def different(self) -> frozenset[NodeResult]:
        """Each answer once."""
        return frozenset(self.answers)

    @property
    def refusals(self) -> list[NodeResult]:
        """Each refusal once; without any, every node has room."""
        return [each for each in self.different if each.reason is not None]

    @property
    def unsearched(self) -> bool:
        """Some node wasn't searched for lack of time: it may have room."""
        return NOT_SEARCHED in self.different

    @property
    def fits(self) -> bool:
        """Some node has room."""
        return any(each.reason is None for each in self.different)

    @property
    def choices(self) -> frozenset[Choice]:
        """Each amount that the pod may take of a quota, once."""
        return frozenset(each.held for each in self.different if each.reason is None)

    def of(self, name: str) -> NodeResult:
        """Return the answer of a node that was asked.

        Raises:
            ValueError: it wasn't.
        """
        return self.answers[self.names.index(name)]

    def reasons(self) -> Mapping[Reason | None, int]:
        """Count the nodes by their reason; None stands for those that have room."""
        if not self.refusals:
            return {None: len(self.answers)} if self.answers else {}
        counts: collections.Counter[Reason | None] = collections.Counter()
        for answer, count in collections.Counter(self.answers).items():
            counts[answer.reason] += count
        return counts

    def pairs(self) -> Iterator[tuple[str, NodeResult]]:
        """Return each node with its answer."""
        return zip(self.names, self.answers, strict=True)

    def ranked(self) -> list[tuple[str, NodeResult]]:
        """Return the nodes that have room, the first choice first."""
        return sorted(self._fitting(), key=_place)

    def best(self) -> tuple[str, NodeResult] | None:
        """Return the first choice; None when no node has room."""
        return min(self._fitting(), key=_place, default=None)

    def _fitting(self) -> Iterator[tuple[str, NodeResult]]:
        return (pair for pair in self.pairs() if pair[1].reason is None)


def _place(pair: tuple[str, NodeResult]) -> tuple[tuple[int, tuple[int, ...]], str]:
    """Return what a node is chosen by: its rank, and among equals its name."""
    name, answer = pair
    return answer.rank, name


def given_up(
    by_state: Mapping[int, NodeResult],
    states: Mapping[str, int],
    names: Sequence[str],
    begin: int,
    time: SearchTime,
) -> Sequence[NodeResult]:
    """Return the answers of the nodes from ``begin`` on, unsearched, once the time is over.

    Nothing while it goes on. It does where most nodes are known: a few have changed, as they do
    all the time, and the pod is as others are.
    """
    if not time.is_over():
        return ()
    found = map(states.get, itertools.islice(names, begin, None), itertools.repeat(_NO_STATE))
    rest = list(map(by_state.get, found, itertools.repeat(NOT_SEARCHED)))
    few = rest.count(NOT_SEARCHED) * _FEW_OF <= len(names)
    return () if few and time.prolong() else rest
