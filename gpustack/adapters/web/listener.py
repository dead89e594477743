"""An address that is listened on, with bounds on what its clients may take.

A client costs one of few descriptors, for seconds, and no thread: one loop gathers the heads of
requests and sends the answers. Where connections run out, the one that has waited longest for its
client is closed, so that a prompt client gets its answer among any number of slow ones; while the
server works for all of them, the next one waits. The clients of one address displace no other's.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import http
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from gpustack.adapters.web import tls
from gpustack.adapters.web.channel import Channel, PlainChannel, TlsChannel
from gpustack.adapters.web.exchange import Exchange, Response, refused
from gpustack.adapters.web.page_threads import Page, PageThreads
from gpustack.adapters.web.rate_limited_log import RateLimitedLog
from gpustack.adapters.web.readers import Readers
from gpustack.wire.host_header import AllowedHosts

logger = logging.getLogger(__name__)

_HEAD_BYTES: Final = 8192  # Prometheus sends 500 and a token, a browser with many cookies 4 000
_LOOK_SECONDS: Final = 0.1  # until the next try to take a connection
_AGAIN_SECONDS: Final = 1.0  # until the next try to listen
_BACKLOG: Final = 128  # connections that the kernel keeps for us
_HANDSHAKE_THREADS: Final = 2  # of a few milliseconds a step; a host has more processors


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of a client's use of the daemon.

    Attributes:
        connections: at once. Two Prometheus servers, probes and a few people take less than ten.
        head_seconds: from the connection to the end of the request's head, in total: of TLS, too.
        page_seconds: how long a client waits for its page: Prometheus's own default (10 s).
        patience_seconds: a connection that waits longer for its page may be closed, too: a page
            that hangs must not keep the others, and a slow page must be answered.
        send_seconds: how long a client may take to accept the answer, in total.
    """

    connections: int = 32
    head_seconds: float = 5.0
    page_seconds: float = 10.0
    patience_seconds: float = 1.0
    send_seconds: float = 5.0


class Security:
    """TLS, and who may read through it."""

    def __init__(self, contexts: tls.TlsContexts, readers: Readers) -> None:
        self.readers = readers
        self._contexts = contexts
        self._threads = concurrent.futures.ThreadPoolExecutor(
            _HANDSHAKE_THREADS, thread_name_prefix="http-handshake"
        )

    def channel(self, client: socket.socket) -> Channel:
        """Return the channel of a connection, whose handshake is to come."""
        return TlsChannel(client, self._contexts, self._threads)

    def end(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.readers.end()


class Listener:
    """Answers GET and HEAD, one request a connection.

    Args:
        address: IP address to listen on.
        port: TCP port; 0 lets the kernel choose.
        hosts: names by which clients may call us, besides `address` and the loopback ones. Under
            TLS any name will do: the client has compared it with the certificate.
        security: TLS, and who may read; None for plain HTTP, which all may.
        bounds: what clients may take.
        waits: an address that can't be had yet is tried again while it serves. Any user of the host
            may take a port that is free, and a daemon has more to do than to answer here.

    Attributes:
        dropped: how many connections were closed before they had their answer.
        problem: why it doesn't listen yet; empty while it does.

    Raises:
        OSError: the address is taken or not ours, and not waited for.
    """

    def __init__(
        self,
        *,
        address: str,
        port: int,
        hosts: Sequence[str] = (),
        security: Security | None = None,
        bounds: Bounds = Bounds(),
        waits: bool = False,
    ) -> None:
        self.dropped, self.problem = 0, ""
        self._address, self._port = address, port
        self._security, self._bounds = security, bounds
        self._hosts = AllowedHosts((address, *hosts), any_name=security is not None)
        self._seldom = RateLimitedLog()
        self._socket: socket.socket | None = None
        try:
            self._socket = self._listen()
        except OSError as error:
            if not waits:
                raise
            self._note(error)
        self._clients: dict[socket.socket, asyncio.Task[None]] = {}
        # The connections that wait for their client, in the order in which the waits began.
        self._slow: collections.OrderedDict[socket.socket, None] = collections.OrderedDict()

    @property
    def port(self) -> int:
        """The port that is listened on, or will be."""
        return self._port if self._socket is None else int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Listen no more."""
        if self._socket is not None:
            self._socket.close()
        if self._security is not None:
            self._security.end()

    async def serve(self, pages: Mapping[str, Page], threads: PageThreads) -> None:
        """Answer with these pages, without end."""
        loop = asyncio.get_running_loop()
        listening = await self._wait_for_address()
        while True:
            try:
                client, _ = await loop.sock_accept(listening)
            except OSError as error:
                # The client is gone already, or the rest of the daemon has used up the descriptors.
                logger.warning("connection not taken: %s", error)
                self._make_room()
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            try:
                await self._wait_for_room()
            except asyncio.CancelledError:
                client.close()
                raise
            client.setblocking(False)
            task = loop.create_task(self._converse(client, pages, threads))
            self._clients[client] = task
            task.add_done_callback(functools.partial(self._leave, client))
            # The server reads the client's first bytes before the next connection may close this
            # one.
            await asyncio.sleep(0)

    def _listen(self) -> socket.socket:
        listening = socket.create_server(
            (self._address, self._port),
            family=socket.AF_INET6 if ":" in self._address else socket.AF_INET,
            dualstack_ipv6=self._address == "::" and socket.has_dualstack_ipv6(),
            backlog=_BACKLOG,
        )
        listening.setblocking(False)
        return listening

    def _note(self, error: OSError) -> None:
        why = os.strerror(error.errno) if error.errno else str(error)
        problem = f"{self._address}:{self._port}: {why}"
        if problem != self.problem:
            logger.error("not listening yet, tried again each second: %s", problem)
        self.problem = problem

    async def _wait_for_address(self) -> socket.socket:
        while self._socket is None:
            await asyncio.sleep(_AGAIN_SECONDS)
            try:
                self._socket, self.problem = self._listen(), ""
            except OSError as error:
                self._note(error)
            else:
                logger.info("listening address=%s port=%d", self._address, self._port)
        return self._socket

    async def _wait_for_room(self) -> None:
        while len(self._clients) >= self._bounds.connections and not self._make_room():
            await asyncio.wait(
                self._clients.values(),
                timeout=_LOOK_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )

    def _leave(self, client: socket.socket, _: asyncio.Task[None]) -> None:
        self._clients.pop(client, None)
        client.close()  # here, because a task that is cancelled before it begins runs nothing

    def _make_room(self) -> bool:
        """Close the connection that waits longest for its client; False when none does."""
        if not self._slow:
            return False
        slowest, _ = self._slow.popitem(last=False)
        self.dropped += 1
        self._clients.pop(slowest).cancel()
        return True

    async def _converse(
        self, client: socket.socket, pages: Mapping[str, Page], threads: PageThreads
    ) -> None:
        channel = PlainChannel(client) if self._security is None else self._security.channel(client)
        try:
            async with self._wait_for(client, self._bounds.head_seconds):
                await channel.open()
                head = await _head(channel)
            async with self._wait_for(client, None, self._bounds.patience_seconds):
                answer = await self._answer(channel, Exchange(head), pages, threads)
            async with self._wait_for(client, self._bounds.send_seconds):
                await channel.send(answer)
        except TimeoutError:
            self.dropped += 1
            logger.debug("client is too slow")
        except (OSError, tls.TlsError) as error:
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        """Log why a connection has ended; a fault of certificates is somebody's to mend."""
        cause, text = "our_certificate", str(error)
        if isinstance(error, OSError):
            cause, text = tls.explain(error) if isinstance(error, ssl.SSLError) else ("gone", text)
        if cause in ("gone", "handshake"):
            logger.debug("client is gone: %s", text)
        elif self._seldom.may_say(cause):
            logger.warning("connection refused port=%d cause=%s error=%s", self.port, cause, text)

    @contextlib.asynccontextmanager
    async def _wait_for(
        self, client: socket.socket, seconds: float | None, patience_seconds: float = 0.0
    ) -> AsyncIterator[None]:
        """Do a slow step; after `patience_seconds` the connection may be closed for another.

        Raises:
            TimeoutError: it took longer than `seconds`.
        """
        loop = asyncio.get_running_loop()
        slow = loop.call_later(patience_seconds, self._slow.setdefault, client, None)
        try:
            async with asyncio.timeout(seconds):
                yield
        finally:
            slow.cancel()
            self._slow.pop(client, None)

    async def _answer(
        self, channel: Channel, exchange: Exchange, pages: Mapping[str, Page], threads: PageThreads
    ) -> bytes:
        refusal = exchange.refusal or self._foreign(exchange)
        if exchange.is_over or refusal is not None:
            return exchange.reply(refusal)
        if self._security is not None:
            readers = self._security.readers
            refusal = await readers.refusal(channel.certificate, exchange.authorization)
        if refusal is not None:
            return exchange.reply(refusal)
        page = pages.get(exchange.path)
        if page is None:
            return exchange.reply(refused(http.HTTPStatus.NOT_FOUND, "no such page"))
        seconds = self._bounds.page_seconds
        return exchange.reply(await threads.make(page, exchange.accept, seconds=seconds))

    def _foreign(self, exchange: Exchange) -> Response | None:
        foreign = self._hosts.refusal(exchange.hosts, required=exchange.needs_host)
        return None if foreign is None else refused(foreign.status, foreign.text)


async def _head(channel: Channel) -> bytes:
    """Read to the end of a request's head, or until it is too long for one.

    Raises:
        OSError: the client has closed the connection.
    """
    head = b""
    while Exchange.END not in head and len(head) <= _HEAD_BYTES:
        if not (more := await channel.receive(_HEAD_BYTES)):
            raise ConnectionResetError("closed within a request")
        head += more
    return head
