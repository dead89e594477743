"""A scheduler's call in the form that Go's client gives it: HTTP without a framework.

kube-scheduler asks three times a pod, one question after another. A parser for any request, an
environment and a response object for each of them take longer than the decision, so the one head
that is always the same is read here. Every other one is gunicorn's and the application's.
"""

import email.utils
import functools
import http.client
import json
import re
import time
from typing import Final

from extender.http import heads
from gpustack.wire.host_header import AllowedHosts, HttpRefusal

# Nothing that says where the request ends but one length, and nothing that asks for another end of
# the connection: a parser of all of RFC 9112 looks at the rest.
_HEAD: Final = re.compile(
    rb"POST (?P<path>/scheduler/[a-z]+) HTTP/1\.1\r\n"
    rb"(?P<fields>(?:(?i:host|user-agent|content-type|accept|accept-encoding):[ -~]*\r\n"
    rb"|(?i:content-length):[ \t]*[0-9]+[ \t]*\r\n)+)\r\n"
)
_SHORT_BYTES: Final = 1024  # Go's is 200 bytes long
_VERB: Final = re.compile(rb"POST " + heads.VERBS.encode())


def asks_for_decision(head: bytes) -> bool:
    """Tell whether a request, well or badly written, is a verb's."""
    return _VERB.match(head) is not None


class FastPath:
    """Reads the scheduler's own head."""

    def __init__(self, ours: AllowedHosts) -> None:
        """Read heads that ask one of ``ours``."""
        self._ours = ours
        # Calls about pods of one template differ in their bodies' length, if at all.
        self._known = functools.lru_cache(maxsize=256)(self._read)

    def path_of(self, head: bytes) -> str | None:
        """Return the path of a scheduler's call; None for whatever else a head may say."""
        return self._known(head) if len(head) <= _SHORT_BYTES else None

    def _read(self, head: bytes) -> str | None:
        found = _HEAD.fullmatch(head)
        if found is None:
            return None
        lines = [line.partition(b":") for line in found["fields"].splitlines()]
        fields = {name.lower(): str(value, "ascii").strip() for name, _, value in lines}
        if len(fields) != len(lines) or b"content-length" not in fields:
            return None
        path = str(found["path"], "ascii")
        host, media = fields.get(b"host"), fields.get(b"content-type", "")
        refused = heads.refusal(self._ours, method="POST", path=path, host=host, media=media)
        return path if refused is None else None


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


def refusal(refused: HttpRefusal) -> bytes:
    """Write the last answer on a connection."""
    return response(refused.status, json.dumps({"Error": refused.text}).encode(), kept=False)


@functools.lru_cache(maxsize=1)  # the same for a second, and dearer than the rest of the head
def _date(second: int) -> str:
    return email.utils.formatdate(second, usegmt=True)
