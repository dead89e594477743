"""Unix sockets of a gRPC server that knows its callers, and bounds what they take.

grpc tells a handler nothing about the process at the other end of a unix socket, and takes any
number of connections. The relay accepts them itself, asks the kernel which process connected
(SO_PEERCRED), and passes the bytes on to the server's own socket by a connection with a name of its
own (autobind, unix(7)): the name that the handler's context gives as its peer.

Anybody who reaches a socket may connect without end, drip, or send for ever. One loop serves all:
each socket takes few connections at a time and few a second, and the others wait in its backlog, so
that a caller delays none but those of its own socket; each connection has a time and a size.
"""

import asyncio
import contextlib
import dataclasses
import functools
import logging
import pathlib
import socket
import struct
import threading
from typing import Final

logger = logging.getLogger(__name__)

_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid: struct ucred (unix(7))
_PEER: Final = "unix-abstract:"  # how grpc writes an address that autobind gave
_CHUNK_BYTES: Final = 16 * 1024
_LOOK_SECONDS: Final = 0.1  # how soon a stop is noticed
_PAUSE_SECONDS: Final = 0.1  # after an accept that failed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RelayBounds:
    """The bounds of the connections.

    Attributes:
        connections: at once, of one socket.
        burst: how many a socket takes without a pause.
        a_second: how many it takes a second after those.
        total: at once, of all sockets; each has three descriptors. Where they run out, the oldest
            of the socket with the most is closed.
        bytes: what a caller may send in a connection: one call of an original client has 400.
        seconds: from the connection to its end.
    """

    connections: int = 8
    burst: int = 32
    a_second: float = 16.0
    total: int = 64
    bytes: int = 64 * 1024
    seconds: float = 10.0


DEFAULT_BOUNDS: Final = RelayBounds()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A process that connected.

    Attributes:
        socket: the name of the socket that it reached.
        pid: its process ID, as the relay's PID namespace numbers it.
    """

    socket: str
    pid: int


class PeerRelay:
    """Relays the connections of any number of sockets to one server's.

    Args:
        server: the socket of the server, out of the callers' reach.
        bounds: of the callers.

    Attributes:
        dropped: connections that were closed because they exceeded a bound.
    """

    def __init__(self, server: pathlib.Path, bounds: RelayBounds = DEFAULT_BOUNDS) -> None:
        self.dropped = 0
        self._server = str(server)
        self._bounds = bounds
        self._lock = threading.Lock()  # guards _callers, _listeners, _loop and _ended
        self._callers: dict[str, Caller] = {}
        self._listeners: dict[str, socket.socket] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = False
        self._accepting: dict[str, asyncio.Task[None]] = {}
        self._serving: dict[str, dict[asyncio.Task[None], None]] = {}

    def caller(self, peer: str) -> Caller | None:
        """Return who is at the other end of a call; `peer` is what its context gives."""
        with self._lock:
            return self._callers.get(peer.removeprefix(_PEER))

    def listen(self, name: str, listener: socket.socket) -> None:
        """Relay what connects to a listening socket; the relay closes it.

        It takes the place of one of the same name, which is closed.
        """
        listener.setblocking(False)
        with self._lock:
            self._drop(name)
            if self._ended:
                listener.close()
                return
            self._listeners[name] = listener
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._begin, name, listener)

    def forget(self, name: str) -> None:
        """End a socket's connections and close it."""
        with self._lock:
            self._drop(name)

    def _drop(self, name: str) -> None:
        listener = self._listeners.pop(name, None)
        if listener is None:
            return
        if self._loop is None:
            listener.close()
        else:
            self._loop.call_soon_threadsafe(self._end, name, listener)

    def run(self, stop: threading.Event) -> None:
        """Relay until `stop` is set."""
        try:
            asyncio.run(self._run(stop))
        finally:
            with self._lock:
                self._ended = True
                for listener in self._listeners.values():
                    listener.close()
                self._listeners.clear()

    async def _run(self, stop: threading.Event) -> None:
        with self._lock:
            self._loop = asyncio.get_running_loop()
            for name, listener in self._listeners.items():
                self._begin(name, listener)
        try:
            while not stop.is_set():
                await asyncio.sleep(_LOOK_SECONDS)
                for task in self._accepting.values():
                    if task.done() and not task.cancelled():
                        task.result()  # it ends by a defect only, and the caller reports that
        finally:
            with self._lock:
                self._loop = None
            # The loop does what it was asked before: sockets that were forgotten are closed.
            await asyncio.sleep(0)

    def _begin(self, name: str, listener: socket.socket) -> None:
        self._end_of(name)
        self._serving[name] = {}
        self._accepting[name] = asyncio.get_running_loop().create_task(self._accept(name, listener))

    def _end(self, name: str, listener: socket.socket) -> None:
        self._end_of(name)
        listener.close()

    def _end_of(self, name: str) -> None:
        accepting = self._accepting.pop(name, None)
        if accepting is not None:
            accepting.cancel()
        for task in self._serving.pop(name, {}):
            task.cancel()

    async def _accept(self, name: str, listener: socket.socket) -> None:
        loop, own = asyncio.get_running_loop(), self._serving[name]
        bounds = self._bounds
        tokens, counted = float(bounds.burst), loop.time()
        while True:
            while len(own) >= bounds.connections:
                await asyncio.wait(own, return_when=asyncio.FIRST_COMPLETED)
            now = loop.time()
            tokens = min(float(bounds.burst), tokens + (now - counted) * bounds.a_second)
            counted = now
            if tokens < 1:
                await asyncio.sleep((1 - tokens) / bounds.a_second)
                continue
            try:
                client = await _accept(listener)
            except OSError as error:
                logger.warning("connection not taken socket=%s: %s", name, error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            tokens -= 1
            self._make_room()
            task = loop.create_task(self._converse(name, client))
            own[task] = None
            task.add_done_callback(functools.partial(self._leave, name, client))

    def _make_room(self) -> None:
        if sum(map(len, self._serving.values())) < self._bounds.total:
            return
        most = max(self._serving.values(), key=len)
        oldest = next(iter(most))
        self.dropped += 1
        del most[oldest]
        oldest.cancel()

    def _leave(self, name: str, client: socket.socket, task: asyncio.Task[None]) -> None:
        self._serving.get(name, {}).pop(task, None)
        client.close()  # here, because a task that is cancelled before it begins runs nothing

    async def _converse(self, name: str, client: socket.socket) -> None:
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, _, _ = _CREDENTIALS.unpack(credentials)
        client.setblocking(False)
        with socket.socket(socket.AF_UNIX) as server:
            server.setblocking(False)
            server.bind("")
            own_name = server.getsockname()[1:].decode("ascii")
            with self._lock:
                self._callers[own_name] = Caller(socket=name, pid=pid)
            try:
                async with asyncio.timeout(self._bounds.seconds):
                    await asyncio.get_running_loop().sock_connect(server, self._server)
                    await self._relay(client, server)
            except (TimeoutError, _TooMuchError):
                self.dropped += 1
                logger.debug("caller dropped socket=%s pid=%d", name, pid)
            except OSError as error:
                logger.debug("caller or server is gone socket=%s: %s", name, error)
            finally:
                with self._lock:
                    del self._callers[own_name]

    async def _relay(self, client: socket.socket, server: socket.socket) -> None:
        """Pass bytes on until the server ends the connection, or the caller does."""
        loop = asyncio.get_running_loop()
        up = loop.create_task(_pass_on(client, server, self._bounds.bytes))
        down = loop.create_task(_pass_on(server, client, None))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            if up.done():
                up.result()
            await down
        finally:
            for each in (up, down):
                each.cancel()
            await asyncio.gather(up, down, return_exceptions=True)


async def _accept(listener: socket.socket) -> socket.socket:
    """Return the next connection; OSError where none could be taken.

    loop.sock_accept() loses the connection that it took in the moment that its task is cancelled,
    and reports a callback's error where the listener is closed then.
    """
    while True:
        try:
            return listener.accept()[0]
        except BlockingIOError:
            await _readable(listener.fileno())


async def _readable(descriptor: int) -> None:
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)


class _TooMuchError(Exception):
    """A caller sends more than it may."""


async def _pass_on(source: socket.socket, sink: socket.socket, most_bytes: int | None) -> None:
    loop = asyncio.get_running_loop()
    passed = 0
    while chunk := await loop.sock_recv(source, _CHUNK_BYTES):
        passed += len(chunk)
        if most_bytes is not None and passed > most_bytes:
            raise _TooMuchError
        await loop.sock_sendall(sink, chunk)
    with contextlib.suppress(OSError):  # it is gone already
        sink.shutdown(socket.SHUT_WR)
