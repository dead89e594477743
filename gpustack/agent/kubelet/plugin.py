"""One advertised resource: its device list, and the functions behind the kubelet's calls."""

import dataclasses
import logging
import threading
from collections.abc import Callable, Iterator, Sequence

from gpustack.adapters.deviceplugin import ContainerResponse, Device
from gpustack.agent.containers.allocation_records import AllocationRecords, PodRecord
from gpustack.agent.kubelet.call_durations import CallDurations
from gpustack.agent.kubelet.device_ids import prefer_lowest
from gpustack.agent.node.inventory import CardInventory
from gpustack.model.node import Node

logger = logging.getLogger(__name__)

# The pause between looks at the records, whose changes show in the health of the IDs. While all
# cards are healthy, no record changes an ID's health.
_LOOK_SECONDS = 0.1
_IDLE_SECONDS = 60.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KubeletCalls:
    """The functions behind the kubelet's calls, each with the device IDs of one container.

    Attributes:
        expect: takes note of the Allocate that comes next.
        allocate: answers Allocate.
        pre_start: checks a container before it starts; None when the resource needs no check.
    """

    expect: Callable[[Sequence[str]], None]
    allocate: Callable[[Sequence[str]], ContainerResponse]
    pre_start: Callable[[Sequence[str]], None] | None = None


class ResourcePlugin:
    """Implements the adapter's `Plugin` for `vcuda-core` and for `vcuda-memory`.

    Args:
        resource: full name.
        inventory: the cards; a change of health is sent to the kubelet at once.
        records: the containers that hold the IDs, whose health is that of their cards.
        devices: the IDs that a node with such records advertises under this name.
        calls: the functions behind the kubelet's calls.
        durations: counts the calls.
    """

    def __init__(
        self,
        *,
        resource: str,
        inventory: CardInventory,
        records: AllocationRecords,
        devices: Callable[[Node, Sequence[PodRecord]], Sequence[Device]],
        calls: KubeletCalls,
        durations: CallDurations,
    ) -> None:
        self._resource = resource
        self._inventory = inventory
        self._records = records
        self._devices = devices
        self._calls = calls
        self._durations = durations

    @property
    def resource(self) -> str:
        """The extended resource's full name."""
        return self._resource

    @property
    def pre_start_required(self) -> bool:
        """Whether the kubelet shall call `pre_start`."""
        return self._calls.pre_start is not None

    def device_lists(self, ended: threading.Event) -> Iterator[Sequence[Device]]:
        """Yield the list at once and after every change of it.

        While all cards are healthy, no record changes it.
        """
        seen: tuple[int, int] | None = None
        sent: Sequence[Device] | None = None
        generation, seconds = -1, _IDLE_SECONDS
        while not ended.is_set():
            node, generation = self._inventory.wait_for_change(generation, seconds, ended.is_set)
            is_well = all(card.healthy for card in node.cards)
            seconds = _IDLE_SECONDS if is_well else _LOOK_SECONDS
            state = (generation, -1 if is_well else self._records.version)
            if state != seen:
                seen, devices = state, self._devices(node, self._records.all())
                if devices != sent:
                    sent = devices
                    yield devices

    def wake(self) -> None:
        """Let `device_lists` see that a stream has ended."""
        self._inventory.wake()

    def preferred(
        self, available: Sequence[str], required: Sequence[str], size: int
    ) -> Sequence[str]:
        """Return the lowest-numbered IDs, also when the lookup fails: an error fails the pod."""
        with self._durations.measured("GetPreferredAllocation", self.resource):
            ids = prefer_lowest(available, required, size)
            try:
                self._calls.expect(ids)
            except Exception:
                text = "the pod of these devices is not known before Allocate resource=%s"
                logger.exception(text, self.resource)
            return ids

    def allocate(self, ids: Sequence[str]) -> ContainerResponse:
        """Answer one container's Allocate."""
        with self._durations.measured("Allocate", self.resource):
            return self._calls.allocate(ids)

    def pre_start(self, ids: Sequence[str]) -> None:
        """Check a container that is about to start."""
        if self._calls.pre_start is not None:
            with self._durations.measured("PreStartContainer", self.resource):
                self._calls.pre_start(ids)
