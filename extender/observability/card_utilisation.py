"""How busy the cards are, for people: what agents have said, and which agents don't say it."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gpustack.model.node import Node

FRESH_SECONDS: Final = 150.0
"""What is older isn't known any more: of two answers in a row one may be missing."""

_MOST_ROUNDS: Final = 8  # until a node that doesn't answer is asked again


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What is known of a node.

    Attributes:
        busy: the busy part of each card's time, 0 to 1, by UUID.
        at: when it was read, seconds of the monotonic clock.
        failures: how many questions since then had no answer.
        rounds: how many rounds go by before it is asked again.
        problem: why it doesn't answer; empty while it does.
    """

    busy: Mapping[str, float] = field(default_factory=dict)
    at: float = float("-inf")
    failures: int = 0
    rounds: int = 0
    problem: str = ""


class CardUtilisation:
    """The readings of the nodes; ``clock`` is in monotonic seconds.

    Each node's is replaced as a whole, so readers need no lock. Rounds follow one another.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._readings: dict[str, _Reading] = {}

    def busy(self, node: Node) -> Mapping[str, float]:
        """Return the busy part of each card's time, 0 to 1, by UUID, of the cards that say it."""
        found = self._readings.get(node.name, _Reading())
        return found.busy if self._clock() - found.at <= FRESH_SECONDS else {}

    def mean(self, nodes: Iterable[Node]) -> float | None:
        """Return the busy part of the time of all cards that say it; None where none does."""
        known = [ratio for node in nodes for ratio in self.busy(node).values()]
        return sum(known) / len(known) if known else None

    def begin_round(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these nodes are asked in this round; of others nothing is kept."""
        known = {name: self._readings.get(name, _Reading()) for name in names}
        later = {name: each for name, each in known.items() if each.rounds}
        self._readings = known | {
            name: replace(each, rounds=each.rounds - 1) for name, each in later.items()
        }
        return frozenset(known.keys() - later.keys())

    def keep(self, name: str, busy: Mapping[str, float]) -> None:
        """Take a node's answer."""
        self._readings[name] = _Reading(busy=busy, at=self._clock())

    def miss(self, name: str, problem: str) -> None:
        """Note that a node hasn't answered: with each time more rounds pass it by."""
        before = self._readings.get(name, _Reading())
        failures = min(before.failures + 1, _MOST_ROUNDS)
        rounds = min(2 ** (failures - 1), _MOST_ROUNDS) - 1
        made = replace(before, failures=failures, rounds=rounds, problem=problem)
        self._readings[name] = made

    @property
    def problem(self) -> str:
        """How many nodes don't answer, and why the first of them doesn't; empty where all do."""
        silent = {name: each.problem for name, each in self._readings.items() if each.problem}
        first = min(silent, default="")
        return f"nodes={len(silent)} first={first} error={silent[first]}" if silent else ""
