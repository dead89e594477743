"""What some nodes said to a pod, all of them together.

A question names thousands of nodes, which share a few answers: whoever can should look at each
answer once, and at no node by a line of Python of its own.
"""

import collections
import functools
from collections.abc import Mapping, Sequence

from extender.state.memory import Answer
from gpustack.model.explanation import Reason


class Answered:
    """The answers to one question, in the order in which the nodes were named."""

    def __init__(self, names: Sequence[str], answers: Sequence[Answer]) -> None:
        """Take the nodes' names and, in the same order, their answers."""
        self.names = names
        self.answers = answers

    @functools.cached_property
    def different(self) -> frozenset[Answer]:
        """Each answer once."""
        return frozenset(self.answers)

    @property
    def refusals(self) -> list[Answer]:
        """Each refusal once; without any, every node has room."""
        return [each for each in self.different if each.reason is not None]

    @property
    def fits(self) -> bool:
        """Some node has room."""
        return any(each.reason is None for each in self.different)

    def of(self, name: str) -> Answer:
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

    def ranked(self) -> list[tuple[str, Answer]]:
        """Return the nodes that have room, the first choice first."""
        pairs = zip(self.names, self.answers, strict=True)
        fitting = [(name, each) for name, each in pairs if each.reason is None]
        return sorted(fitting, key=lambda pair: (pair[1].rank, pair[0]))

    def best(self) -> tuple[str, Answer] | None:
        """Return the first choice; None when no node has room."""
        ranks = [each.rank for each in self.different if each.reason is None]
        if not ranks:
            return None
        rank = min(ranks)
        pairs = zip(self.names, self.answers, strict=True)
        return min(
            (pair for pair in pairs if pair[1].reason is None and pair[1].rank == rank),
            key=lambda pair: pair[0],
        )
