"""What the head of a request must say before anything is done for it.

One place for both ways to an answer: the scheduler's own head, which is read without a framework
(`fast_path`), and every other one, which Flask's application asks about.

kube-scheduler sends `Content-Type: application/json` and the host of its `urlPrefix`, and no
`Origin` (pkg/scheduler/extender.go of 1.34, pkg/scheduler/core/extender.go of 1.18: `send`). A web
page may send a POST of `text/plain` to any address unasked (CORS), but not one of JSON.
"""

from dataclasses import dataclass
from typing import Final

from gpustack.wire.host_header import AllowedHosts, HttpRefusal

VERBS: Final = "/scheduler/"
"""How the paths of verbs begin."""

JSON: Final = "application/json"
_SHOWN: Final = 80  # of a wrong value, in an error


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """A request's head, as far as it is judged.

    Attributes:
        method: the method.
        path: the path without its query.
        hosts: the values of its headers `Host`.
        origin: of its header `Origin`; None where it has none.
        media: of its header `Content-Type`; "" where it has none.
        is_1_0: it speaks HTTP/1.0, which knows no `Host`.
    """

    method: str
    path: str
    hosts: tuple[str, ...]
    origin: str | None = None
    media: str = ""
    is_1_0: bool = False


def refusal(head: RequestHead, ours: AllowedHosts) -> HttpRefusal | None:
    """Say why a request isn't answered; None when it is."""
    foreign = ours.refusal(head.hosts, required=not head.is_1_0)
    if foreign is not None or not head.path.startswith(VERBS):
        return foreign
    if head.origin is not None:
        text = f"Origin: {head.origin[:_SHOWN]!r}; kube-scheduler asks for decisions, no web page"
        return HttpRefusal(403, text)
    if head.method == "POST" and head.media.partition(";")[0].strip().lower() != JSON:
        text = f"Content-Type: {head.media[:_SHOWN]!r}; a decision is asked for in {JSON}"
        return HttpRefusal(415, text)
    return None


def too_large(limit_bytes: int) -> HttpRefusal:
    """Refuse a body for its length."""
    text = f"Content-Length: the body is too large; request_limit_bytes allows {limit_bytes} bytes"
    return HttpRefusal(413, text)
