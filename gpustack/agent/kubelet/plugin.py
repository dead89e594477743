"""One advertised resource: its device list, and the functions behind the kubelet's calls."""

import threading
from collections.abc import Callable, Iterator, Sequence

from gpustack.adapters.deviceplugin import ContainerResponse, Device
from gpustack.agent.kubelet.device_ids import prefer_lowest
from gpustack.agent.node.inventory import CardInventory
from gpustack.model.node import Node

_LOOK_SECONDS = 0.1  # how soon a stream notices that the kubelet has hung up


class ResourcePlugin:
    """Implements the adapter's `Plugin` for `vcuda-core` and for `vcuda-memory`.

    Args:
        resource: full name.
        inventory: the cards; a change of health is sent to the kubelet at once.
        devices: the IDs that a node advertises under this name.
        allocate: answers one container's Allocate.
        pre_start: checks a container before it starts; None when the resource needs no check.
    """

    def __init__(
        self,
        *,
        resource: str,
        inventory: CardInventory,
        devices: Callable[[Node], Sequence[Device]],
        allocate: Callable[[Sequence[str]], ContainerResponse],
        pre_start: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        self._resource = resource
        self._inventory = inventory
        self._devices = devices
        self._allocate = allocate
        self._pre_start = pre_start

    @property
    def resource(self) -> str:
        """The extended resource's full name."""
        return self._resource

    @property
    def pre_start_required(self) -> bool:
        """Whether the kubelet shall call `pre_start`."""
        return self._pre_start is not None

    def device_lists(self, ended: threading.Event) -> Iterator[Sequence[Device]]:
        """Yield the list at once and after every change of the inventory."""
        sent = -1
        while not ended.is_set():
            node, generation = self._inventory.wait_for_change(sent, _LOOK_SECONDS)
            if generation != sent:
                sent = generation
                yield self._devices(node)

    def preferred(
        self, available: Sequence[str], required: Sequence[str], size: int
    ) -> Sequence[str]:
        """Return the lowest-numbered IDs."""
        return prefer_lowest(available, required, size)

    def allocate(self, ids: Sequence[str]) -> ContainerResponse:
        """Answer one container's Allocate."""
        return self._allocate(ids)

    def pre_start(self, ids: Sequence[str]) -> None:
        """Check a container that is about to start."""
        if self._pre_start is not None:
            self._pre_start(ids)
