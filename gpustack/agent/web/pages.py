"""The pages of the agent's HTTP server, by path."""

import http
import json
from collections.abc import Callable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry

from gpustack.adapters.web import exposition
from gpustack.adapters.web.exchange import Response
from gpustack.adapters.web.page_threads import Page
from gpustack.agent.web.display import Display
from gpustack.wire.one_line import one_line

METRICS: Final = ("/metrics", "/metric")
"""The paths of the metrics: Prometheus's own, and the original's."""

_LONGEST_LINE: Final = 500  # characters of one reason not to be ready


def pages(
    *,
    registry: CollectorRegistry,
    display: Display,
    unready: Callable[[], list[str]],
    unwell: Callable[[], list[str]],
) -> Mapping[str, Page]:
    """Return the table of paths.

    Args:
        registry: the metrics.
        display: what the original shows of a node.
        unready: the problems that keep the agent from taking work, one phrase each.
        unwell: likewise, the problems that a restart may cure.
    """

    def metrics(accept: str) -> Response:
        text, content_type = exposition.render(registry, accept)
        return Response(content_type=content_type, body=text)

    return {
        **dict.fromkeys(METRICS, metrics),
        "/healthz": lambda _: _probe(unwell()),
        "/readyz": lambda _: _probe(unready()),
        "/version": lambda _: _json({"version": display.version()}),
        "/usage": lambda _: _json(display.usages()),
        "/graph": lambda _: _json({"graph": display.graph()}),
    }


def _probe(problems: list[str]) -> Response:
    if not problems:
        return Response(body=b"ok\n")
    body = "".join(f"{one_line(each, _LONGEST_LINE)}\n" for each in problems).encode()
    return Response(status=http.HTTPStatus.SERVICE_UNAVAILABLE, body=body)


def _json(value: Mapping[str, object]) -> Response:
    return Response(content_type="application/json", body=json.dumps(value).encode() + b"\n")
