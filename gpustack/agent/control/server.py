"""The server of `agent.sock`, with all services that root finds there."""

from gpustack.adapters import display
from gpustack.adapters.control import ControlServer, Service, control_service
from gpustack.agent.control.reload import ConfigurationReload
from gpustack.agent.control.root_control import RootControl
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.settings import AgentSettings


def build(
    settings: AgentSettings, inventory: CardInventory, source: display.DisplaySource
) -> tuple[ConfigurationReload, ControlServer]:
    """Return what takes a changed configuration over, and the server, not started."""
    configuration = ConfigurationReload(settings, inventory)
    services = (
        control_service(RootControl(inventory, configuration.reload)),
        Service(name=display.SERVICE, methods=display.methods(source)),
    )
    return configuration, ControlServer(settings.control_socket, services)
