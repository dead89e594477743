"""The use of a node's cards at one moment, as values."""

from dataclasses import dataclass

from gpustack.model.errors import GpustackError


class AgentUsageError(GpustackError):
    """An agent can't be asked, or answers with no usage; names its address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCard:
    """One card: cores in hundredths of it, memory in bytes.

    Attributes:
        minor: its number, as the agent's text has it.
        healthy: whether it takes new work.
        busy_cores: what NVML says that it is busy; None where it doesn't say.
        given_cores: what containers are guaranteed of it.
        memory: its total.
        used_memory: what is in use; None where NVML doesn't say.
        given_memory: what containers may use of it.
    """

    minor: str
    healthy: bool
    busy_cores: float | None
    given_cores: float
    memory: int
    used_memory: int | None
    given_memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredContainer:
    """One container on all its cards: cores in hundredths of a card, memory in bytes."""

    namespace: str
    pod: str
    container: str
    used_cores: float
    guaranteed_cores: float
    used_memory: int
    guaranteed_memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNode:
    """One node's cards, by minor, and the containers that hold them."""

    node: str
    cards: tuple[MeasuredCard, ...]
    containers: tuple[MeasuredContainer, ...]
