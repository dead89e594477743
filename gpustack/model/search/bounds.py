"""What can't fit, without trying: bounds for the containers of a pod that are still to be placed.

All bounds are necessary conditions: a node that breaks one certainly has no room, and a pod of many
containers is refused after a few tries instead of after all of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpustack.model.request import ContainerRequest
from gpustack.model.units import CORES_PER_CARD

# Sums of memory are looked at one by one up to this many units (1 TiB); larger cards count in full.
_MOST_UNITS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeCapacity:
    """What one card has free."""

    cores: int
    memory_units: int
    idle: bool


_NONE: Final = FreeCapacity(cores=0, memory_units=0, idle=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingDemands:
    """What several containers that run together ask.

    Attributes:
        whole_cards: how many, summed.
        cores: of all shares, summed; memory units likewise.
        least: the fewest cores and the fewest memory units that a share asks.
        crowds: (cores, memory units, how many shares ask at least both), for every amount asked.
        core_sums: the amounts of cores that some of the shares make up exactly, as bits.
        unit_sums: the same of memory units.
    """

    whole_cards: int
    cores: int
    memory_units: int
    least: tuple[int, int]
    crowds: tuple[tuple[int, int, int], ...]
    core_sums: int
    unit_sums: int


def demands(containers: Iterable[ContainerRequest]) -> RemainingDemands:
    """Sum up what these containers ask."""
    every = list(containers)
    shares = [each for each in every if each.is_share]
    cores = [each.cores for each in shares]
    units = [each.memory_units for each in shares]
    by_cores = _crowds(sorted(zip(cores, units, strict=True), reverse=True))
    by_units = _crowds(sorted(zip(units, cores, strict=True), reverse=True))
    crowds = {*by_cores, *((low, high, count) for high, low, count in by_units)}
    return RemainingDemands(
        whole_cards=sum(each.whole_cards for each in every),
        cores=sum(cores),
        memory_units=sum(units),
        least=(min(cores, default=0), min(units, default=0)),
        crowds=tuple(sorted(crowds)),
        core_sums=sums(cores, CORES_PER_CARD),
        unit_sums=sums(units, _MOST_UNITS),
    )


def hopeless(rooms: Sequence[FreeCapacity], asked: RemainingDemands) -> bool:
    """Say that the cards certainly can't hold all that is asked."""
    if sum(room.idle for room in rooms) < asked.whole_cards:
        return True
    if not asked.crowds:
        return False
    useful = [room if _holds(room, *asked.least) else _NONE for room in rooms]

    def most(held: list[int]) -> int:
        """Sum up what the cards hold once whole cards took the idle ones that hold the least."""
        if not asked.whole_cards:
            return sum(held)
        given = sorted(amount for amount, room in zip(held, rooms, strict=True) if room.idle)
        return sum(held) - sum(given[: asked.whole_cards])

    return (
        most(_fill(asked.core_sums, [room.cores for room in useful])) < asked.cores
        or most(_fill(asked.unit_sums, [room.memory_units for room in useful])) < asked.memory_units
        or any(
            most([_holds(room, cores, units) for room in useful]) < count
            for cores, units, count in asked.crowds
        )
    )


def _holds(room: FreeCapacity, cores: int, units: int) -> int:
    """Return how many shares of at least so much one card can hold."""
    return min(room.cores // cores, room.memory_units // units)


def _crowds(falling: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Return (an amount, the least of the other amount beside it, how many ask both or more)."""
    found: dict[int, tuple[int, int, int]] = {}
    least = 0
    for count, (amount, other) in enumerate(falling, start=1):
        least = min(least, other) if least else other
        found[amount] = amount, least, count
    return list(found.values())


def sums(amounts: Iterable[int], most: int) -> int:
    """Return the sums up to `most` that some of the amounts make up exactly, as bits."""
    within = (1 << (most + 1)) - 1
    found = 1
    for amount in amounts:
        if amount <= most:
            found |= found << amount & within
    return found


def fill(made: int, most: int) -> int:
    """Return the largest of `sums` that is no more than `most`."""
    return (made & ((1 << (most + 1)) - 1)).bit_length() - 1


def _fill(made: int, free: list[int]) -> list[int]:
    """Return for each card the largest sum that it can hold."""
    return [each if each > _MOST_UNITS else fill(made, each) for each in free]
