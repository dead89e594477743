"""One request to an extender, in this process or another, and a wait for its own actions."""

import contextlib
import dataclasses
import http.client
import json
import ssl
import time
from collections.abc import Callable
from typing import Any

WAIT_SECONDS = 20.0


@dataclasses.dataclass(slots=True, kw_only=True)
class Answer:
    """An HTTP answer; ``body`` is decoded when it is JSON."""

    status: int
    body: Any
    raw: bytes

    @property
    def text(self) -> str:
        return self.raw.decode()


def call(
    port: int,
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    context: ssl.SSLContext | None = None,
) -> Answer:
    """Make one HTTP request on its own connection; over TLS where there is a context."""
    connection = (
        http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
        if context is None
        else http.client.HTTPSConnection("127.0.0.1", port, timeout=WAIT_SECONDS, context=context)
    )
    with contextlib.closing(connection):
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        raw = response.read()
        is_json = response.getheader("Content-Type") == "application/json"
        return Answer(status=response.status, body=json.loads(raw) if is_json else None, raw=raw)


def eventually(
    condition: Callable[[], bool], complaint: Callable[[], str] = lambda: "waited in vain"
) -> None:
    """Wait until a condition holds; ``complaint`` words the failure after WAIT_SECONDS."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, complaint()
        time.sleep(0.005)
