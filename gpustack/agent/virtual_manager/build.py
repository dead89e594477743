"""The virtual manager's parts."""

import dataclasses
from typing import Final

from gpustack.adapters.vcuda import VcudaServer
from gpustack.agent.cluster.pods import PodView
from gpustack.agent.identification.runtime import RuntimeView
from gpustack.agent.kernel_files import HOST, KernelFiles
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.settings import AgentSettings
from gpustack.agent.tasks import Tasks
from gpustack.agent.virtual_manager.callers import CallerContainers
from gpustack.agent.virtual_manager.original_containers import OriginalContainers
from gpustack.agent.virtual_manager.pod_folders import PodFolders
from gpustack.agent.virtual_manager.registrations import Registrations
from gpustack.agent.virtual_manager.virtual_manager import VirtualManager
from gpustack.wire.keys import Keys

AUTO: Final = "auto"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VirtualManagerParts:
    """The two parts that run."""

    manager: VirtualManager
    server: VcudaServer

    def start(self, tasks: Tasks) -> None:
        """Run them as the agent's tasks."""
        tasks.start("registrations", self.server.run)
        tasks.start("virtual manager", self.manager.run)


def build(
    settings: AgentSettings,
    pods: PodView,
    runtime: RuntimeView,
    inventory: CardInventory,
    originals: OriginalContainers,
    *,
    kernel: KernelFiles = HOST,
) -> VirtualManagerParts | None:
    """Return the parts, not started; None where the original left no folder, or they are off."""
    root = settings.virtual_manager_path
    if settings.virtual_manager_serve != AUTO or not root.is_dir():
        return None
    folders = PodFolders(root)
    registrations = Registrations(
        keys=Keys(settings.domain),
        pods=pods,
        inventory=inventory,
        callers=CallerContainers(runtime, proc=kernel.proc, cgroups=kernel.cgroups),
        folders=folders,
    )
    server = VcudaServer(settings.run_dir / "vcuda.d" / "server.sock", registrations.register)
    manager = VirtualManager(
        pods=pods, runtime=runtime, originals=originals, folders=folders, server=server
    )
    return VirtualManagerParts(manager=manager, server=server)
