"""What a pod will take that was let pass and isn't bound yet, as far as it can be known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

Choice = tuple[tuple[str, int], ...]
"""Hundredths of a card by label-safe model, of one placement that the pod may get."""

NO_CHOICES: Final[frozenset[Choice]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A pod that waits to be bound, and each amount that it may take of a quota.

    Attributes:
        choices: one for each kind of node that it may come to; the scheduler chooses the node.
    """

    uid: str
    namespace: str
    name: str
    choices: frozenset[Choice]

    @property
    def amounts(self) -> tuple[Mapping[str, int], ...]:
        """Each choice's hundredths of a card, by model."""
        return tuple(map(dict, self.choices))
