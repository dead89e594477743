"""The CDI devices, put together from the configuration."""

import pathlib

from gpustack.adapters.cri import CriClient
from gpustack.adapters.kube import KubeClient
from gpustack.agent.cdi.devices import CdiDevices
from gpustack.agent.cdi.spec_file import SpecFile
from gpustack.agent.cdi.support import CdiSupport, CdiUnsupported
from gpustack.agent.identification.runtime import KubeletView
from gpustack.agent.node.device_nodes import DeviceNodes
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.settings import AgentSettings
from gpustack.wire.config import ConfigError


def devices(
    settings: AgentSettings,
    client: KubeClient,
    runtime: CriClient,
    *,
    inventory: CardInventory,
    kubelet: KubeletView,
    device_dir: pathlib.Path,
) -> CdiDevices:
    """Return the CDI devices, after a question to kubelet and runtime where they are on.

    Raises:
        ConfigError: kubelet or runtime says that it takes none.
    """
    support = None
    if settings.cdi_enabled:
        support = CdiSupport(
            client=client,
            node_name=settings.node_name,
            runtime=runtime,
            folder=settings.cdi_spec_dir,
            kubelet_restarts=lambda: kubelet.restarts,
        )
        _check(settings, support)
    return CdiDevices(
        domain=settings.domain,
        support=support,
        file=SpecFile(settings.cdi_spec_dir),
        nodes=DeviceNodes(device_dir, settings.extra_devices),
        cards=lambda: inventory.node.cards,
        kubelet=kubelet.checkpoint,
    )


def _check(settings: AgentSettings, support: CdiSupport) -> None:
    try:
        support.look()
    except CdiUnsupported as error:
        problem = f"cdi.enabled: {error}, or set it to false"
        raise ConfigError(settings.file, [problem]) from error
