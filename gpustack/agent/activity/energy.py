"""The energy of the cards, divided among the containers that use them.

The driver counts a card's energy, and no container's part of it. What a kernel draws depends on the
kernel, which no counter shows; so a second's energy is divided by GPU time. This rule is ours:

- all energy of a card that is given whole is its container's;
- of any other card, what it drew between two looks is divided among the shares that ran in that
  time, by the GPU time that the driver saw of each;
- the rest is idle energy: what was drawn while no share ran, or only processes of the host.

The parts add up to the card's own counter, but for what the driver's windows don't cover yet.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from gpustack.adapters.nvml import Nvml, NvmlError
from gpustack.adapters.web.exposition import row
from gpustack.agent.activity.nvml_usage import ContainerSample
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.identification.process_owners import Owner

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EnergySums:
    """Joules as of one look, which add up: what a counter gains, its card's parts gain.

    Attributes:
        given: of each container on each card (UUID), since the agent's start.
        idle: of each card that are no container's, by UUID; only of cards that count energy.
        namespaces: of each namespace's containers, those that ended included.
        counters: each card's own counter, as far as it is divided, since the driver was loaded.
    """

    given: Mapping[tuple[Owner, str], float] = field(default_factory=dict)
    idle: Mapping[str, float] = field(default_factory=dict)
    namespaces: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)

    def of(self, owner: Owner, uuid: str) -> float | None:
        """Return a container's joules on a card; None where the card doesn't count."""
        return self.given.get((owner, uuid), 0.0) if uuid in self.idle else None


class EnergyAccounts:
    """Divides what the cards draw.

    Attributes:
        sums: what is divided so far.
    """

    def __init__(self, nvml: Nvml, records: AllocationRecords) -> None:
        self._nvml = nvml
        self._records = records
        self.sums = EnergySums()  # replaced, because another thread reads it

    def look(self, seen: Mapping[str, Mapping[Owner, ContainerSample]]) -> None:
        """Divide what each card drew since the look before.

        Args:
            seen: the containers with processes on each card, as the driver sees them.
        """
        holders: dict[str, Owner] = {}
        living: dict[Owner, str] = {}
        for record in self._records.all():
            for container in record.containers:
                living[record.uid, container.name] = record.namespace
                if not container.placement.is_share:
                    # Containers that have a card in turn: the last is the one that stays.
                    holders |= dict.fromkeys(
                        container.placement.uuids, (record.uid, container.name)
                    )
        try:
            counters = self._nvml.energy_joules()
        except NvmlError as error:
            logger.debug("the driver says nothing of energy: %s", error)
            return
        divided, idle = dict(self.sums.counters), dict(self.sums.idle)
        namespaces = dict(self.sums.namespaces)
        given = {key: joules for key, joules in self.sums.given.items() if key[0] in living}
        for uuid, counter in counters.items():
            idle.setdefault(uuid, 0.0)
            before = divided.setdefault(uuid, counter)
            sights = seen.get(uuid, {})
            if uuid not in holders and sights and not any(each.span_ns for each in sights.values()):
                continue  # the driver's windows have not ended: this is divided when they have
            divided[uuid] = counter
            # A driver that was loaded again counts from zero: what it drew before is not known.
            drawn = max(0.0, counter - before)
            parts = _parts(sights, living, holders.get(uuid))
            for owner, part in parts.items():
                given[owner, uuid] = given.get((owner, uuid), 0.0) + part * drawn
                namespace = row(namespaces, living[owner])
                namespaces[namespace] = namespaces.get(namespace, 0.0) + part * drawn
            if not parts:
                idle[uuid] += drawn
        self.sums = EnergySums(given, idle, namespaces, divided)


def _parts(
    seen: Mapping[Owner, ContainerSample], living: Collection[Owner], holder: Owner | None
) -> Mapping[Owner, float]:
    """Return each container's part of what a card drew; they add up to 1, or there are none."""
    if holder is not None:
        return {holder: 1.0}
    busy = {owner: each.busy_ns for owner, each in seen.items() if owner in living}
    total = sum(busy.values())
    return {owner: part / total for owner, part in busy.items() if part} if total else {}
