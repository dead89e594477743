"""What the head of a request must say before anything is done for it.

One place for both ways to an answer: the scheduler's own head, which is read without a framework
(`fast_path`), and every other one, which Flask's application asks about.

kube-scheduler sends `Content-Type: application/json` and the host of its `urlPrefix`, and no
`Origin` (pkg/scheduler/extender.go of 1.34, pkg/scheduler/core/extender.go of 1.18: `send`). A web
page may send a POST of `text/plain` to any address unasked (CORS), but not one of JSON.
"""

from typing import Final

from gpustack.wire.host_header import AllowedHosts, HttpRefusal

VERBS: Final = "/scheduler/"
"""How the paths of verbs begin."""

JSON: Final = "application/json"
_SHOWN: Final = 80  # of a wrong value, in an error


def refusal(
    ours: AllowedHosts,
    *,
    method: str,
    path: str,
    host: str | None,
    media: str,
    origin: str | None = None,
    is_1_0: bool = False,
) -> HttpRefusal | None:
    """Say why a request isn't answered; None when it is.

    Args:
        ours: the hosts that are asked here.
        method: the request's method.
        path: its path without the query.
        host: its header `Host`; of several, joined, which is no host. None where it has none.
        media: its header `Content-Type`; "" where it has none.
        origin: its header `Origin`; None where it has none.
        is_1_0: it speaks HTTP/1.0, which knows no `Host`.
    """
    foreign = ours.refusal(() if host is None else (host,), required=not is_1_0)
    if foreign is not None or not path.startswith(VERBS):
        return foreign
    if origin is not None:
        text = f"Origin: {origin[:_SHOWN]!r}; kube-scheduler asks for decisions, no web page"
        return HttpRefusal(403, text)
    if method == "POST" and media.partition(";")[0].strip().lower() != JSON:
        text = f"Content-Type: {media[:_SHOWN]!r}; a decision is asked for in {JSON}"
        return HttpRefusal(415, text)
    return None


def too_large(limit_bytes: int) -> HttpRefusal:
    """Refuse a body for its length."""
    text = f"Content-Length: the body is too large; request_limit_bytes allows {limit_bytes} bytes"
    return HttpRefusal(413, text)
