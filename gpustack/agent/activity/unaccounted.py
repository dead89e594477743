"""Memory that a container holds and its ledger doesn't explain.

The driver counts modules, contexts that the hook missed, programs without the hook, and the memory
behind a ledger that its tenant has overwritten. All of it counts against the share.
"""

from typing import Final

from gpustack.agent.identification.process_owners import Owner

# The agent reads the driver and the ledger one after the other, and a request between them would
# look like uncharged memory. The lowest of three samples is free of such a request.
_SAMPLES: Final = 3


class UnaccountedMemory:
    """The lowest of a container's last three samples, for each of its cards."""

    def __init__(self) -> None:
        # Tuples, which are replaced and not changed: the metrics are read by another thread.
        self._samples: dict[tuple[Owner, str], tuple[int, ...]] = {}

    def begin(self, owner: Owner, uuid: str, known_bytes: int) -> None:
        """Go on from what an earlier agent has published; it stands until three samples are in."""
        self._samples.setdefault((owner, uuid), (known_bytes,) * _SAMPLES)

    def add(self, owner: Owner, uuid: str, *, seen_bytes: int, charged_bytes: int) -> int:
        """Take a sample; returns the lowest of the last three."""
        before = self._samples.get((owner, uuid), (0,) * _SAMPLES)
        samples = (*before[1:], max(0, seen_bytes - charged_bytes))
        self._samples[owner, uuid] = samples
        return min(samples)

    def bytes_of(self, owner: Owner, uuid: str) -> int:
        """Return the lowest of a container's last three samples on a card."""
        return min(self._samples[owner, uuid])

    def total_bytes(self) -> int:
        """Return the sum over all containers and cards."""
        return sum(min(samples) for samples in tuple(self._samples.values()))

    def forget(self, living: frozenset[Owner]) -> None:
        """Drop the containers that are gone."""
        self._samples = {key: value for key, value in self._samples.items() if key[0] in living}
