"""A scheduler's call in the form that Go's client gives it: HTTP without a framework.

kube-scheduler asks three times a pod, one question after another. A parser for any request, an
environment and a response object for each of them take longer than the decision, so the one head
that is always the same is read here. Every other one is gunicorn's and the application's.
"""

import email.utils
import functools
import http.client
import re
import time
from typing import Final

# Nothing that says where the request ends but one length, and nothing that asks for another end of
# the connection: what isn't in here is looked at by who knows all of RFC 9112.
_HEAD: Final = re.compile(
    rb"POST (?P<path>/scheduler/[a-z]+) HTTP/1\.1\r\n"
    rb"(?P<fields>(?:(?i:host|user-agent|content-type|accept|accept-encoding):[ -~]*\r\n"
    rb"|(?i:content-length):[ \t]*[0-9]+[ \t]*\r\n)+)\r\n"
)
_SHORT_BYTES: Final = 1024  # Go's is 200 bytes long
_NEEDED: Final = frozenset({b"host", b"content-length"})


def path_of(head: bytes) -> str | None:
    """Return the path of a scheduler's call; None for whatever else a head may say."""
    return _path_of(head) if len(head) <= _SHORT_BYTES else None


# Calls about pods of one template differ in their bodies' length, if at all.
@functools.lru_cache(maxsize=256)
def _path_of(head: bytes) -> str | None:
    found = _HEAD.fullmatch(head)
    if found is None:
        return None
    names = [line.partition(b":")[0].lower() for line in found["fields"].splitlines()]
    once = len(set(names)) == len(names) and set(names) >= _NEEDED
    return str(found["path"], "ascii") if once else None


def response(status: int, body: bytes, *, kept: bool) -> bytes:
    """Write an answer in JSON, head and body in one piece; ``kept`` says what follows it."""
    head = (
        f"HTTP/1.1 {status} {http.client.responses[status]}\r\n"
        f"Date: {_date(int(time.time()))}\r\n"
        f"Connection: {'keep-alive' if kept else 'close'}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@functools.lru_cache(maxsize=1)  # the same for a second, and dearer than the rest of the head
def _date(second: int) -> str:
    return email.utils.formatdate(second, usegmt=True)
