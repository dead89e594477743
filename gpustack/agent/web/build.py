"""The HTTP server with its pages and metrics."""

from collections.abc import Iterable

from prometheus_client.registry import Collector

from gpustack.adapters.web.server import WebServer
from gpustack.agent.condition import Condition
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.settings import AgentSettings
from gpustack.agent.web.display import Display
from gpustack.agent.web.metrics import Number, registry
from gpustack.agent.web.pages import pages
from gpustack.agent.web.usage import UsageReader


def build(
    settings: AgentSettings,
    inventory: CardInventory,
    records: AllocationRecords,
    *,
    usage: UsageReader,
    display: Display,
    condition: Condition,
    numbers: Iterable[Number],
    figures: Iterable[Collector],
) -> WebServer:
    """Return the server, not started.

    Raises:
        OSError: the address is taken or not ours.
    """
    metrics = registry(inventory, records, usage, numbers=numbers, others=figures)
    return WebServer(
        address=settings.http_address,
        port=settings.http_port,
        hosts=settings.http_allowed_hosts,
        pages=pages(
            registry=metrics,
            display=display,
            unready=condition.unready,
            unwell=condition.unwell,
        ),
    )
