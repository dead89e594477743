"""Metrics as text, in the form that the client reads: Prometheus's own, or OpenMetrics."""

from collections.abc import Collection
from typing import Final

from prometheus_client import exposition
from prometheus_client.registry import Collector

MOST_NAMESPACES: Final = 1000
"""How many namespaces have rows of their own in a metric: tenants may make any number of them."""
OTHERS: Final = "(others)"
"""Stands for all further namespaces; none can have this name."""

# Longer than Prometheus 3 sends (260 characters); a header may be as long as a whole head.
_LONGEST_ACCEPT: Final = 1024
# Versions that the library writes as their standards say. It takes any other version from the
# client, and one that is no number is a TypeError.
_VERSIONS: Final = frozenset({"", "0.0.4", "1.0.0"})


def row(known: Collection[str], namespace: str) -> str:
    """Return the namespace under which an amount is counted, beside those that are known."""
    return namespace if namespace in known or len(known) < MOST_NAMESPACES else OTHERS


def render(registry: Collector, accept: str) -> tuple[bytes, str]:
    """Return the metrics as text, and that text's content type.

    Args:
        registry: the metrics.
        accept: the request's header `Accept`; "" where it has none. Media types that can't be
            written are passed over, and where none is left the answer is Prometheus's own text.
    """
    encode, content_type = exposition.choose_encoder(_written(accept))
    return encode(registry), content_type


def form(accept: str) -> str:
    """Return an `Accept` of the same meaning, one of a few for all that clients write."""
    content_type: str = exposition.choose_encoder(_written(accept))[1]
    return content_type


def _written(accept: str) -> str:
    """Return the media types of an `Accept` that can be written."""
    asked = accept.split(",") if len(accept) <= _LONGEST_ACCEPT else []
    return ",".join(filter(_writable, asked))


def _writable(media: str) -> bool:
    """Say whether we can write a media type with these parameters (RFC 9110, 12.5.1)."""
    named = [part.strip().partition("=")[::2] for part in media.split(";")[1:]]
    refused = dict(named).get("q", "1").rstrip("0") in ("", "0.")
    # Each, because the library takes the first.
    return not refused and all(value in _VERSIONS for name, value in named if name == "version")
