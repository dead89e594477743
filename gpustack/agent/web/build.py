"""The HTTP server with its pages and metrics."""

from collections.abc import Iterable, Mapping

from prometheus_client.registry import Collector

from gpustack.adapters.kube import KubeClient, TokenReviewer
from gpustack.adapters.web import remote_metrics
from gpustack.adapters.web.listener import Listener
from gpustack.adapters.web.page_threads import Page
from gpustack.adapters.web.remote_metrics import RemoteMetrics
from gpustack.adapters.web.server import WebServer
from gpustack.agent.condition import Condition
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.settings import AgentSettings
from gpustack.agent.web.display import Display
from gpustack.agent.web.metrics import Number, registry
from gpustack.agent.web.pages import METRICS, pages
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
        KubeConfigError: the kubeconfig can't be used.
    """
    metrics = registry(inventory, records, usage, numbers=numbers, others=figures)
    table = pages(
        registry=metrics,
        display=display,
        unready=condition.unready,
        unwell=condition.unwell,
    )
    local = Listener(
        address=settings.http_address,
        port=settings.http_port,
        hosts=settings.http_allowed_hosts,
        waits=True,
    )
    listeners: dict[Listener, Mapping[str, Page]] = {local: table}
    if settings.metrics is not None:
        listeners[_remote(settings, settings.metrics)] = {path: table[path] for path in METRICS}
    server = WebServer(listeners)
    condition.also("pages and metrics can't be read", lambda: server.problem)
    return server


def _remote(settings: AgentSettings, metrics: RemoteMetrics) -> Listener:
    # Connections of its own: no question about a token waits for those of pods.
    client = KubeClient.from_kubeconfig(settings.kubeconfig)
    judge = TokenReviewer(client, remote_metrics.PATH).judge
    return metrics.listener(judge, waits=True)
