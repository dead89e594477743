"""What the extender's HTTP server is given, and what it promises: the seam for another server.

``gunicorn_server.GunicornServer`` is the one that ships. ``tests/extender/werkzeug_server.py`` is a
second one; ``tests/extender/http/test_promises.py`` tries every promise with both.
"""

import enum
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from gpustack.adapters.web.tls import TlsFiles
from gpustack.wire.host_header import AllowedHosts

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

CONNECTION: Final = "gpustack.connection"
"""The key of a WSGI environment with the client's socket: with ``getpeercert`` under TLS."""

HOLD_SECONDS: Final = "gpustack.hold_seconds"
"""The key of a WSGI environment under which routes leave their reply's ``hold_seconds``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """What an operator decides about the HTTP server.

    Attributes:
        host: address to listen on; beyond loopback with TLS only.
        port: TCP port; 0 takes a free one (tests).
        allowed_hosts: the names that requests may use beside loopback and ``host``.
        tls: TLS with client certificates, and the one client whose requests decide; None for plain
            HTTP, where every request may.
        request_limit_bytes: largest request body.
        request_seconds: longest time for a request to arrive.
        threads: requests answered at the same time.
        log_level: name of the least severe level to log, upper case.
    """

    host: str
    port: int
    allowed_hosts: tuple[str, ...]
    tls: TlsFiles | None
    request_limit_bytes: int
    request_seconds: float
    threads: int
    log_level: str

    @property
    def hosts(self) -> AllowedHosts:
        """The hosts that requests may be meant for."""
        return AllowedHosts((self.host, *self.allowed_hosts))


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a scheduler's call.

    Attributes:
        body: JSON.
        status: of HTTP.
        hold_seconds: how long the answer is held back before it is sent.
    """

    body: bytes
    status: int = 200
    hold_seconds: float = 0.0


class SchedulerCalls(Protocol):
    """Answers the scheduler's calls."""

    @property
    def paths(self) -> Set[str]:
        """The paths of the calls."""

    def answer(self, path: str, body: bytes, *, disconnected: Callable[[], bool]) -> Reply:
        """Answer the call of one of ``paths``; every error is a reply, too.

        ``disconnected`` tells whether the caller has closed its connection.
        """


class Application(Protocol):
    """What is served; composed in the process that answers."""

    @property
    def routes(self) -> "WSGIApplication":
        """Answers every request whose head isn't the scheduler's own, calls among them."""

    @property
    def calls(self) -> SchedulerCalls:
        """Answers the calls whose head the fast path reads, without ``routes``."""

    def ready(self) -> None:
        """Called once requests are answered."""

    def tick(self) -> None:
        """Called by one thread, once a second at least, as long as the server is alive."""

    def refused(self, cause: str) -> None:
        """Called for a connection that ended before its request; ``cause`` is of a fixed list."""

    def stop(self) -> None:
        """Called when the process ends."""


Compose = Callable[[], Application]


class Promise(enum.Enum):
    """What a server promises beyond HTTP/1.1, where a single client must not stop the scheduler."""

    CALLS = "a call is answered by `calls` or `routes` alike, whatever its head looks like"
    HOLD = "a reply is sent hold_seconds late, and occupies no thread meanwhile"
    CALLER = "routes find the client's socket, with its certificate, under CONNECTION"
    PLAIN_READS = "under TLS, a client on this host may ask without it on the same port"
    SILENT_HANDSHAKE = "a client that never shakes hands delays no other, and is closed in time"
    SLOW_REQUEST = "a request that arrives slowly holds no thread; after request_seconds it is 408"
    UNREAD_ANSWER = "an answer that its client does not read holds no thread"
    HALF_BODY = "a caller that may not decide is refused at the head, before its body"
    BODY_LIMIT = "a body over request_limit_bytes is 413, and is not kept in memory"
    HEAD_LIMIT = "a head without an end is 431"
    ONE_AT_A_TIME = "requests of one connection are answered one at a time and in their order"
    PLACES = "where connections run out, the one that has waited longest is closed"
    RELOAD = "renewed certificates count for the next connection, and open ones go on"
    GRACEFUL_END = "SIGTERM ends no request that has begun, and takes no new connection"
