"""How many cards of which model a namespace may hold, and in which pools of nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpustack.model.frozen import freeze


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceQuota:
    """What a listed namespace may hold.

    Attributes:
        cards: hundredths of a card by model name (`model_matches`); a card that two names
            match counts for both.
        pools: the pools it may use; empty: all.
    """

    cards: Mapping[str, int] = field(default_factory=dict)
    pools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "cards")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The quota of every listed namespace."""

    namespaces: Mapping[str, NamespaceQuota] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze(self, "namespaces")

    def of(self, namespace: str) -> NamespaceQuota | None:
        """Return what a namespace may hold; None where it isn't limited."""
        return self.namespaces.get(namespace)


NO_QUOTA: Final = Quota()
