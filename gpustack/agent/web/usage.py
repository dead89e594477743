"""The present use of the cards: NVML's processes, traced to containers by their cgroups."""

import dataclasses
import logging

from gpustack.adapters.nvml import GpuProcess, Nvml, NvmlError
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.identification.process_owners import ProcessOwners
from gpustack.agent.node.inventory import CardInventory
from gpustack.model.node import Node
from gpustack.model.placement import minors_now

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CardProcesses:
    """One container's use of one card, as the driver sees it."""

    minor: int
    sm_percent: int = 0
    memory_bytes: int = 0
    pids: tuple[int, ...] = ()

    def plus(self, process: GpuProcess, sm_percent: int) -> "CardProcesses":
        """Return the sum with one more process."""
        return CardProcesses(
            minor=self.minor,
            sm_percent=self.sm_percent + sm_percent,
            memory_bytes=self.memory_bytes + process.memory_bytes,
            pids=(*self.pids, process.pid),
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUse:
    """One container that holds cards: its request, and its use of each of them."""

    pod_uid: str
    namespace: str
    pod: str
    container: str
    cores: int
    memory_units: int
    cards: tuple[CardProcesses, ...]


class UsageReader:
    """Reads usage at each request and keeps none.

    Args:
        nvml: the driver.
        inventory: the cards.
        records: which container has which.
        owners: whose process is whose.
        period_seconds: the time over which utilisation is averaged.
    """

    def __init__(
        self,
        *,
        nvml: Nvml,
        inventory: CardInventory,
        records: AllocationRecords,
        owners: ProcessOwners,
        period_seconds: float = 1.0,
    ) -> None:
        self._period_seconds = period_seconds
        self._nvml = nvml
        self._inventory = inventory
        self._records = records
        self._owners = owners

    def read(self) -> tuple[ContainerUse, ...]:
        """Return every container that holds cards."""
        node = self._inventory.node
        used = self._by_owner(node)
        return tuple(
            ContainerUse(
                pod_uid=record.uid,
                namespace=record.namespace,
                pod=record.name,
                container=container.name,
                cores=container.placement.cores,
                memory_units=container.placement.memory_units,
                cards=tuple(
                    used.get((record.uid, container.name, minor), CardProcesses(minor=minor))
                    for minor in minors_now(node, container.placement)
                ),
            )
            for record in self._records.all()
            for container in record.containers
            if container.core_ids
        )

    def _by_owner(self, node: Node) -> dict[tuple[str, str, int], CardProcesses]:
        """Return use by pod UID, container name and card."""
        owner_of = self._owners.now()
        used: dict[tuple[str, str, int], CardProcesses] = {}
        for card in node.cards:
            for process, percent in self._processes(card.uuid):
                owner = owner_of(process.pid)
                if owner is not None:
                    key = (*owner, card.minor)
                    use = used.get(key, CardProcesses(minor=card.minor))
                    used[key] = use.plus(process, percent)
        return used

    def _processes(self, uuid: str) -> list[tuple[GpuProcess, int]]:
        """Return the processes on a card, each with its utilisation in percent."""
        try:
            percent = self._nvml.sm_percent(uuid, self._period_seconds)
            return [(each, percent.get(each.pid, 0)) for each in self._nvml.processes(uuid)]
        except NvmlError as error:
            logger.debug("no processes of card uuid=%s: %s", uuid, error)
            return []
