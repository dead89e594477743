"""What is taken of one card, in the two units of a card."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What is taken of one card; more than the card where it is over-committed."""

    cores: int = 0
    memory_units: int = 0

    @property
    def idle(self) -> bool:
        """True when nothing at all is taken."""
        return self.cores == 0 and self.memory_units == 0

    def __add__(self, other: "Use") -> "Use":
        return Use(
            cores=self.cores + other.cores, memory_units=self.memory_units + other.memory_units
        )

    def __sub__(self, other: "Use") -> "Use":
        return Use(
            cores=self.cores - other.cores, memory_units=self.memory_units - other.memory_units
        )

    def __or__(self, other: "Use") -> "Use":
        """Return the larger of each: what two holders need that never run at once."""
        return Use(
            cores=max(self.cores, other.cores),
            memory_units=max(self.memory_units, other.memory_units),
        )


IDLE: Final = Use()
