"""The agent's HTTP server: a table of paths, each with a function that makes the answer.

Every user of the host reaches it, and it is part of a daemon that runs as root. So a client costs
one of few descriptors, for seconds, and no thread: one loop gathers the heads of requests and sends
the answers. Each page has one thread, and is made once for all clients that ask for it meanwhile.
Where connections run out, the server closes the one that has waited longest for its client, so that
a prompt client gets its answer among any number of slow ones; while the server works for all of
them, the next one waits.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import http
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final

from gpustack.adapters.web import exposition
from gpustack.adapters.web.exchange import Exchange, Response, refused
from gpustack.wire.host_header import AllowedHosts

logger = logging.getLogger(__name__)

Page = Callable[[str], Response]  # from the request's `Accept` to the response

_HEAD_BYTES: Final = 8192  # Prometheus sends 500, a browser with many cookies 4 000
_LOOK_SECONDS: Final = 0.1  # how soon a stop is noticed
_BACKLOG: Final = 128  # connections that the kernel keeps for us


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of a client's use of the daemon.

    Attributes:
        connections: at once. Two Prometheus servers, probes and a few people take less than ten.
        head_seconds: from the connection to the end of the request's head, in total.
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


class WebServer:
    """Serves GET and HEAD for a fixed set of paths, one request a connection.

    Args:
        address: IP address to listen on.
        port: TCP port; 0 lets the kernel choose.
        pages: path to function.
        hosts: names by which clients may call us, besides `address` and the loopback ones.
        bounds: what clients may take.

    Attributes:
        dropped: how many connections were closed before they had their answer.

    Raises:
        OSError: the address is taken or not ours.
    """

    def __init__(
        self,
        *,
        address: str,
        port: int,
        pages: Mapping[str, Page],
        hosts: Sequence[str] = (),
        bounds: Bounds = Bounds(),
    ) -> None:
        self.dropped = 0
        self._pages = pages
        self._hosts = AllowedHosts((address, *hosts))
        self._bounds = bounds
        self._listener = socket.create_server((address, port), backlog=_BACKLOG)
        self._listener.setblocking(False)
        self._threads = {
            page: concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="http-page")
            for page in pages.values()
        }
        self._making: dict[tuple[Page, str], asyncio.Future[Response]] = {}
        self._clients: dict[socket.socket, asyncio.Task[None]] = {}
        # The connections that wait for their client, in the order in which the waits began.
        self._slow: collections.OrderedDict[socket.socket, None] = collections.OrderedDict()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._listener.getsockname()[1])

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        try:
            asyncio.run(self._serve(stop))
        finally:
            self._listener.close()
            for pool in self._threads.values():
                pool.shutdown(wait=False, cancel_futures=True)

    async def _serve(self, stop: threading.Event) -> None:
        accepting = asyncio.create_task(self._accept())
        while not stop.is_set():
            await asyncio.wait({accepting}, timeout=_LOOK_SECONDS)
            if accepting.done():
                accepting.result()  # it ends by a defect only, and the caller reports that

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self._listener)
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
            task = loop.create_task(self._converse(client))
            self._clients[client] = task
            task.add_done_callback(functools.partial(self._leave, client))
            # The server reads the client's first bytes before the next connection may close this
            # one.
            await asyncio.sleep(0)

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

    async def _converse(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with self._wait_for(client, self._bounds.head_seconds):
                head = await _head(client)
            async with self._wait_for(client, None, self._bounds.patience_seconds):
                answer = await self._answer(Exchange(head))
            async with self._wait_for(client, self._bounds.send_seconds):
                await loop.sock_sendall(client, answer)
        except TimeoutError:
            self.dropped += 1
            logger.debug("client is too slow")
        except OSError as error:
            logger.debug("client is gone: %s", error)

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

    async def _answer(self, exchange: Exchange) -> bytes:
        foreign = self._hosts.refusal(exchange.hosts, required=exchange.needs_host)
        if exchange.refusal is not None:
            return exchange.reply(exchange.refusal)
        if foreign is not None:
            return exchange.reply(refused(foreign.status, foreign.text))
        page = self._pages.get(exchange.path)
        if page is None:
            return exchange.reply(refused(http.HTTPStatus.NOT_FOUND, "no such page"))
        return exchange.reply(await self._made(page, exchange.accept))

    async def _made(self, page: Page, accept: str) -> Response:
        """Have the page made in its thread, or share the one that is being made already."""
        # Clients can invent any number of forms; their thread would never end with all of them.
        accept = exposition.form(accept)
        key = page, accept
        making = self._making.get(key)
        if making is None:
            loop = asyncio.get_running_loop()
            making = loop.run_in_executor(self._threads[page], _make, page, accept)
            self._making[key] = making
            making.add_done_callback(lambda _: self._making.pop(key))
        try:
            async with asyncio.timeout(self._bounds.page_seconds):
                return await asyncio.shield(making)
        except TimeoutError:
            text = f"not made within {self._bounds.page_seconds:g} s"
            return refused(http.HTTPStatus.SERVICE_UNAVAILABLE, text)


async def _head(client: socket.socket) -> bytes:
    """Read to the end of a request's head, or until it is too long for one.

    Raises:
        OSError: the client has closed the connection.
    """
    loop = asyncio.get_running_loop()
    head = b""
    while Exchange.END not in head and len(head) <= _HEAD_BYTES:
        if not (more := await loop.sock_recv(client, _HEAD_BYTES)):
            raise ConnectionResetError("closed within a request")
        head += more
    return head


def _make(page: Page, accept: str) -> Response:
    try:
        return page(accept)
    except Exception:
        # Every request gets a status, also when its page fails; the process goes on.
        logger.exception("page failed")
        return refused(http.HTTPStatus.INTERNAL_SERVER_ERROR, "failed; see the log")
