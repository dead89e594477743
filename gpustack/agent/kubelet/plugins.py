"""The servers of the two resources, and their registration."""

import functools
import pathlib
from collections.abc import Callable
from typing import Final

from gpustack.adapters.deviceplugin import PluginServer
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.containers.allocator import Allocator
from gpustack.agent.containers.pre_start import PreStart
from gpustack.agent.kubelet import device_ids
from gpustack.agent.kubelet.call_durations import CallDurations
from gpustack.agent.kubelet.plugin import KubeletCalls, ResourcePlugin
from gpustack.agent.kubelet.registrar import Registrar
from gpustack.agent.node.inventory import CardInventory
from gpustack.wire.keys import Keys

_CORE_SOCKET: Final = "vcore.sock"
_MEMORY_SOCKET: Final = "vmemory.sock"


def registrar(
    keys: Keys,
    inventory: CardInventory,
    records: AllocationRecords,
    plugin_dir: pathlib.Path,
    *,
    allocator: Allocator,
    pre_start: PreStart,
    durations: CallDurations,
    on_kubelet_restart: Callable[[], None],
) -> Registrar:
    """Return the registrar of both servers."""
    return Registrar(
        servers=_servers(
            keys,
            inventory,
            records,
            plugin_dir,
            allocator=allocator,
            pre_start=pre_start,
            durations=durations,
        ),
        kubelet_socket=plugin_dir / "kubelet.sock",
        on_kubelet_restart=on_kubelet_restart,
    )


def _servers(
    keys: Keys,
    inventory: CardInventory,
    records: AllocationRecords,
    plugin_dir: pathlib.Path,
    *,
    allocator: Allocator,
    pre_start: PreStart,
    durations: CallDurations,
) -> tuple[PluginServer, PluginServer]:
    """Return the servers of `vcuda-core` and `vcuda-memory`, not started."""
    cores = ResourcePlugin(
        resource=keys.vcuda_core,
        inventory=inventory,
        records=records,
        devices=functools.partial(device_ids.core_ids, keys),
        calls=KubeletCalls(
            expect=allocator.expect_cores,
            allocate=allocator.allocate_cores,
            pre_start=pre_start.start,
        ),
        durations=durations,
    )
    units = ResourcePlugin(
        resource=keys.vcuda_memory,
        inventory=inventory,
        records=records,
        devices=functools.partial(device_ids.memory_ids, keys),
        calls=KubeletCalls(expect=allocator.expect_memory, allocate=allocator.allocate_memory),
        durations=durations,
    )
    return (
        PluginServer(plugin=cores, socket=plugin_dir / _CORE_SOCKET),
        PluginServer(plugin=units, socket=plugin_dir / _MEMORY_SOCKET),
    )
