"""The pages of the agent's HTTP server, by path."""

import http
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry

from gpustack import __version__
from gpustack.adapters import exposition
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.web.exchange import Response
from gpustack.agent.web.graph import graph
from gpustack.agent.web.server import Page
from gpustack.agent.web.usage import ContainerUse, UsageReader
from gpustack.model.node import Node
from gpustack.model.units import CORES_PER_CARD, MEMORY_UNIT_BYTES
from gpustack.wire.one_line import one_line

_MIB = 1024 * 1024
_LONGEST_LINE: Final = 500  # characters of one reason not to be ready


def pages(
    *,
    registry: CollectorRegistry,
    inventory: CardInventory,
    usage: UsageReader,
    unready: Callable[[], list[str]],
    unwell: Callable[[], list[str]],
) -> Mapping[str, Page]:
    """Return the table of paths.

    Args:
        registry: the metrics.
        inventory: the cards.
        usage: the containers that use them.
        unready: the problems that keep the agent from taking work, one phrase each.
        unwell: likewise, the problems that a restart may cure.
    """

    def metrics(accept: str) -> Response:
        text, content_type = exposition.render(registry, accept)
        return Response(content_type=content_type, body=text)

    return {
        "/metrics": metrics,
        "/metric": metrics,
        "/healthz": lambda _: _probe(unwell()),
        "/readyz": lambda _: _probe(unready()),
        "/version": lambda _: _json({"version": __version__}),
        "/usage": lambda _: _json({"usage": _usage(inventory.node, usage.read())}),
        "/graph": lambda _: _json({"graph": graph(inventory, usage.read())}),
    }


def _probe(problems: list[str]) -> Response:
    if not problems:
        return Response(body=b"ok\n")
    body = "".join(f"{one_line(each, _LONGEST_LINE)}\n" for each in problems).encode()
    return Response(status=http.HTTPStatus.SERVICE_UNAVAILABLE, body=body)


def _json(value: Mapping[str, object]) -> Response:
    return Response(content_type="application/json", body=json.dumps(value).encode() + b"\n")


def _usage(node: Node, used: tuple[ContainerUse, ...]) -> dict[str, dict[str, Any]]:
    """Return the original's `/usage`: pod UID, then containers with their requests and use."""
    cards = {card.minor: (position, card) for position, card in enumerate(node.cards)}
    pods: dict[str, dict[str, Any]] = {}
    for each in used:
        pod = pods.setdefault(each.pod_uid, {"project": each.namespace, "stat": {}, "spec": {}})
        dev = [
            {
                "id": cards[card.minor][1].bus,
                "card_idx": str(cards[card.minor][0]),
                "gpu": card.sm_percent,
                "mem": card.memory_bytes / _MIB,
                "pids": list(card.pids),
                "device_mem": cards[card.minor][1].memory_bytes / _MIB,
            }
            for card in each.cards
            if card.minor in cards
        ]
        pod["stat"][each.container] = {"dev": dev}
        pod["spec"][each.container] = {
            "gpu": each.cores / CORES_PER_CARD,
            "mem": each.memory_units * MEMORY_UNIT_BYTES / _MIB,
        }
    return pods
