"""What is asked: the rules of `vcuda-core` and `vcuda-memory` for each container of a pod.

1..99 cores are a share of one card and need memory; 100 n cores are n whole cards, whose memory
is theirs whatever the number says. Everything else is refused with the field and what to do.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from gpustack.model import units
from gpustack.model.errors import GpustackError
from gpustack.model.model_name import model_matches
from gpustack.model.use import Use

_BYTES: Final = 512  # of a request, or of a container in it, beside the names


class ContainerKind(Enum):
    """How a container lives beside the pod's others."""

    APP = "app"
    SIDECAR = "sidecar"  # a restartable init container: runs to the pod's end, placed like APP
    INIT = "init"  # an ordinary init container: is over before any APP starts


class Topology(Enum):
    """How the cards of one container must be joined (annotation `gpu-topology`)."""

    BEST_EFFORT = "best-effort"
    SINGLE_SWITCH = "single-switch"
    SINGLE_NUMA = "single-numa"
    NVLINK = "nvlink"


class Strategy(Enum):
    """Fill what is in use first, or the opposite."""

    BINPACK = "binpack"
    SPREAD = "spread"


class BadRequest(GpustackError, ValueError):
    """A pod that asks for something that doesn't exist: the path of the field, and what to do."""

    def __init__(self, field: str, problem: str) -> None:
        self.field: Final = field
        self.message: Final = f"{field}: {problem}"
        super().__init__(self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Names to accept and names to refuse; an empty `include` accepts all."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


ANY: Final = Selector()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """What one container asks.

    Attributes:
        name: the container's name.
        kind: how it lives; with `index` it names the container within the pod.
        index: position in `spec.containers` (APP) or in `spec.initContainers` (the others).
        cores: hundredths of a card: 1..99 or a multiple of 100.
        memory_units: units of 256 MiB; recorded only for whole cards.
    """

    name: str
    kind: ContainerKind = ContainerKind.APP
    index: int
    cores: int
    memory_units: int

    def __post_init__(self) -> None:
        """Raise `BadRequest` as `check_container` does."""
        _check(self.cores, self.memory_units, "cores", "memory_units")

    @property
    def is_share(self) -> bool:
        """True for a part of one card, False for whole cards."""
        return self.cores < units.CORES_PER_CARD

    @property
    def whole_cards(self) -> int:
        """How many whole cards; 0 for a share."""
        return self.cores // units.CORES_PER_CARD

    @property
    def card_count(self) -> int:
        """How many cards it holds."""
        return max(1, self.whole_cards)

    @property
    def share(self) -> Use:
        """What a share takes of its card."""
        return Use(cores=self.cores, memory_units=self.memory_units)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """What a pod asks: its containers that ask for anything, and the user's conditions."""

    containers: tuple[ContainerRequest, ...]
    models: Selector = ANY
    uuids: Selector = ANY
    topology: Topology = Topology.BEST_EFFORT
    node_strategy: Strategy = Strategy.BINPACK
    card_strategy: Strategy = Strategy.BINPACK

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes; its user may name 64 models."""
        lists = self.models, self.uuids
        names = [name for each in lists for name in (*each.include, *each.exclude)]
        names += [each.name for each in self.containers]
        return _BYTES * (1 + len(self.containers)) + sum(64 + len(name) for name in names)

    @property
    def held_varies(self) -> bool:
        """True when it may hold more of some cards than of others that are like them.

        An ordinary init container has a card of the pod's, and may take more of it than the others.
        """
        running = self.running
        return len(running) < len(self.containers) and sum(each.card_count for each in running) > 1

    @property
    def running(self) -> list[ContainerRequest]:
        """The containers that run together: all but ordinary init containers."""
        return [each for each in self.containers if each.kind is not ContainerKind.INIT]

    def accepts(self, model: str, uuid: str) -> bool:
        """Say whether the user's lists of models and UUIDs allow a card."""
        if any(model_matches(name, model) for name in self.models.exclude):
            return False
        if uuid in self.uuids.exclude:
            return False
        if self.uuids.include and uuid not in self.uuids.include:
            return False
        models = self.models.include
        return not models or any(model_matches(name, model) for name in models)


def check_container(
    *,
    name: str,
    kind: ContainerKind = ContainerKind.APP,
    index: int,
    cores: int,
    memory_units: int,
    core_field: str = "vcuda-core",
    memory_field: str = "vcuda-memory",
) -> ContainerRequest | None:
    """Turn one container's two limits into a request; None when it asks for nothing.

    `core_field` and `memory_field` are the paths that a refusal names.

    Raises:
        BadRequest: a negative amount, cores between whole cards, a share without memory, memory
            without cores, more memory than any cards could have.
    """
    if cores == 0 and memory_units == 0:
        return None
    _check(cores, memory_units, core_field, memory_field)
    return ContainerRequest(
        name=name, kind=kind, index=index, cores=cores, memory_units=memory_units
    )


def _check(cores: int, memory_units: int, core_field: str, memory_field: str) -> None:
    if cores < 0:
        raise BadRequest(core_field, f"{cores} is negative; ask for 1 to 99, or for 100 a card")
    if memory_units < 0:
        raise BadRequest(memory_field, f"{memory_units} is negative; count units of 256 MiB")
    if cores == 0:
        amount = f"{memory_units} units of memory ({units.size_text(memory_units)})"
        raise BadRequest(memory_field, f"{amount} without compute; set {core_field} too")
    if cores < units.CORES_PER_CARD and memory_units == 0:
        raise BadRequest(
            core_field,
            f"a share of {cores} needs memory; set {memory_field} to a number of 256 MiB units",
        )
    _check_whole(cores, core_field)
    _check_size(memory_units, max(1, cores // units.CORES_PER_CARD), memory_field)


def _check_size(memory_units: int, cards: int, memory_field: str) -> None:
    """Refuse what is no size of cards: a pod that means bytes would wait for ever."""
    if memory_units > cards * units.LARGEST_CARD_UNITS:
        amount = f"{memory_units} units of 256 MiB ({units.size_text(memory_units)})"
        raise BadRequest(memory_field, f"asks {amount}; {units.meant_text(memory_units)}")


def _check_whole(cores: int, core_field: str) -> None:
    most = units.MOST_CARDS * units.CORES_PER_CARD
    if cores > most:
        raise BadRequest(
            core_field,
            f"{cores} are more than the {units.MOST_CARDS} cards that a node can have; "
            f"use {most} at most",
        )
    over = cores % units.CORES_PER_CARD
    if cores > units.CORES_PER_CARD and over:
        low = cores - over
        raise BadRequest(
            core_field,
            f"{cores} is neither a share (1 to 99) nor whole cards (a multiple of 100); "
            f"use {low} or {low + units.CORES_PER_CARD}",
        )
