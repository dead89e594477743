"""GPU-seconds: how long which part of the cards was whose, to be paid for or to be called idle.

A GPU-second is one card for a second, or half of one for two, whether its processes run or not.
What namespaces hold and what is idle add up to the time of all cards. Before each change of the
records, the time since the change before goes to those that held cards in it.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from gpustack.adapters.web.exposition import row
from gpustack.agent.containers.allocation_records import AllocationRecords, PodRecord
from gpustack.agent.node.inventory import CardInventory
from gpustack.model.model_name import label_safe_model
from gpustack.model.placement import given
from gpustack.model.units import CORES_PER_CARD


class GpuSeconds:
    """Counts since the agent's start.

    Attributes:
        held: GPU-seconds by namespace, then by model.
        idle: GPU-seconds of each card that no pod held, by UUID.
    """

    def __init__(
        self,
        records: AllocationRecords,
        inventory: CardInventory,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._inventory = inventory
        self._clock = clock
        self._lock = threading.Lock()
        self._counted = clock()
        self.held: Mapping[str, Mapping[str, float]] = {}  # replaced, as other threads read it
        self.idle: Mapping[str, float] = {}
        records.before_change = self._count

    def look(self) -> None:
        """Count up to now."""
        self._count(self._records.all())

    def _count(self, records: Iterable[PodRecord]) -> None:
        """Count the time since the count before, in which these pods held cards."""
        with self._lock:
            now = self._clock()
            seconds, self._counted = now - self._counted, now
            self._add(records, seconds)

    def _add(self, records: Iterable[PodRecord], seconds: float) -> None:
        node = self._inventory.node
        free = dict.fromkeys(range(len(node.cards)), CORES_PER_CARD)
        held = {namespace: dict(models) for namespace, models in self.held.items()}
        for record in records:
            for index, use in given(node, record.placement).items():
                models = held.setdefault(row(held, record.namespace), {})
                model = label_safe_model(node.cards[index].model)
                part = use.cores / CORES_PER_CARD
                models[model] = models.get(model, 0.0) + part * seconds
                free[index] = max(0, free[index] - use.cores)
        idle = dict(self.idle)
        for index, cores in free.items():
            uuid = node.cards[index].uuid
            idle[uuid] = idle.get(uuid, 0.0) + cores / CORES_PER_CARD * seconds
        self.held, self.idle = held, idle
