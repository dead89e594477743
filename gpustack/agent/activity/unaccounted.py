"""Memory that a container holds and its ledger doesn't explain.

The driver counts modules, contexts that the hook missed, programs without the hook, and the memory
behind a ledger that its tenant has overwritten. All of it counts against the share.
"""

import dataclasses
from collections.abc import Iterable
from typing import Final

from gpustack.agent.identification.process_owners import Owner

# What was there at three of the last ten samples counts: memory that is given back in between
# can't hide, and one that lasts a moment, as that of a process that ends, isn't held against the
# next.
_SAMPLES: Final = 10
_TIMES: Final = 3
NO_SAMPLES: Final = (0,) * _SAMPLES


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemorySample:
    """One container's memory on one card.

    Attributes:
        seen_bytes: by the driver.
        charged_bytes: in the ledger, read after that.
        share_bytes: the most that the hook grants.
        moved: whether the ledger may have changed since before the driver was asked.
        uncounted: processes that have no place in the ledger.
    """

    seen_bytes: int
    charged_bytes: int
    share_bytes: int
    moved: bool = False
    uncounted: int = 0

    @property
    def unaccounted_bytes(self) -> int:
        """What no ledger explains, at least.

        The hook charges before the driver takes, and gives back after it has freed. So a ledger
        that stands still has at least what the driver sees of it. One that moves may have had any
        charge up to the share when the driver was asked.
        """
        charged = max(self.charged_bytes, self.share_bytes) if self.moved else self.charged_bytes
        return max(0, self.seen_bytes - charged)

    @property
    def above_bytes(self) -> int:
        """What the driver sees above the share."""
        return max(0, self.seen_bytes - self.share_bytes)


_Figures = tuple[int, int, int]
_NOTHING: Final = ((0, 0, 0),) * _SAMPLES


class UnaccountedMemory:
    """What containers held at three of their last ten samples, for each of their cards."""

    def __init__(self) -> None:
        # Tuples, which are replaced and not changed: the metrics are read by another thread.
        self._samples: dict[tuple[Owner, str], tuple[_Figures, ...]] = {}

    def begin(self, owner: Owner, uuid: str, known_bytes: int) -> None:
        """Go on from what an earlier agent has published; it stands until most samples are in."""
        self._samples.setdefault((owner, uuid), ((known_bytes, 0, 0),) * _SAMPLES)

    def add(self, owner: Owner, uuid: str, sample: MemorySample) -> int:
        """Take a sample; returns what is unaccounted with it."""
        before = self._samples.get((owner, uuid), _NOTHING)
        figures = sample.unaccounted_bytes, sample.above_bytes, sample.uncounted
        after = (*before[1:], figures)
        self._samples[owner, uuid] = _NOTHING if after == _NOTHING else after
        return self.bytes_of(owner, uuid)

    def bytes_of(self, owner: Owner, uuid: str) -> int:
        """Return what is unaccounted of a container on a card."""
        return self._lasting(owner, uuid, 0)

    def above_bytes_of(self, owner: Owner, uuid: str) -> int:
        """Return what a container holds on a card above its share."""
        return self._lasting(owner, uuid, 1)

    def uncounted_of(self, owner: Owner, uuid: str) -> int:
        """Return how many of a container's processes on a card have no place in its ledger."""
        return self._lasting(owner, uuid, 2)

    def _lasting(self, owner: Owner, uuid: str, figure: int) -> int:
        samples = self._samples[owner, uuid]
        # Most containers have nothing to count, and a look asks five times about each.
        return 0 if samples is _NOTHING else lasting(each[figure] for each in samples)

    def total_bytes(self) -> int:
        """Return what is unaccounted of all containers and cards."""
        return sum(lasting(each[0] for each in kept) for kept in tuple(self._samples.values()))

    def forget(self, living: frozenset[Owner]) -> None:
        """Drop the containers that are gone."""
        self._samples = {key: value for key, value in self._samples.items() if key[0] in living}


def lasting(samples: Iterable[int]) -> int:
    """Return what was there at three of ten samples."""
    return sorted(samples)[-_TIMES]
