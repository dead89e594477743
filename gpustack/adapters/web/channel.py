"""A client's connection for one loop: bytes in, bytes out, with TLS or without it."""

import asyncio
import concurrent.futures
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from gpustack.adapters.web.tls import TlsContexts
from gpustack.adapters.web.tls_socket import TlsSocket

_Result = TypeVar("_Result")

_PIECE_BYTES: Final = 1 << 16  # of an answer, encrypted at once: under a millisecond


class Channel(Protocol):
    """A connection that was accepted."""

    async def open(self) -> None:
        """Prepare it; raises OSError where it can't be used."""

    async def receive(self, size: int) -> bytes:
        """Return what has come, ``size`` bytes at most; b"" at the end."""

    async def send(self, data: bytes) -> None:
        """Send all of it."""

    @property
    def certificate(self) -> object:
        """The verified certificate of the client; nothing true where it has shown none."""


class PlainChannel:
    """A connection without TLS."""

    certificate = None

    def __init__(self, client: socket.socket) -> None:
        self._client = client

    async def open(self) -> None:
        """Do nothing: a connection is open when it is accepted."""

    async def receive(self, size: int) -> bytes:
        """Return what has come."""
        return await asyncio.get_running_loop().sock_recv(self._client, size)

    async def send(self, data: bytes) -> None:
        """Send all of it."""
        await asyncio.get_running_loop().sock_sendall(self._client, data)


class TlsChannel:
    """A connection with TLS, of which a bounded number of threads shakes hands.

    A step of a handshake takes milliseconds of a processor. In these threads it delays no other
    connection's answer. A connection has one step in the queue at most.
    """

    def __init__(
        self,
        client: socket.socket,
        contexts: TlsContexts,
        threads: concurrent.futures.ThreadPoolExecutor,
    ) -> None:
        self._client, self._contexts, self._threads = client, contexts, threads
        self._tls: TlsSocket

    @property
    def certificate(self) -> Any:
        """The verified certificate of the client, as ``ssl.SSLSocket.getpeercert`` has it."""
        return self._tls.getpeercert()

    async def open(self) -> None:
        """Shake hands.

        Raises:
            OSError: the handshake has failed.
        """
        context = await self._step(self._contexts.current)  # which reads files that have changed
        self._tls = TlsSocket(self._client, context)
        await self._repeat(lambda: self._step(self._tls.do_handshake))

    async def receive(self, size: int) -> bytes:
        """Return what has come.

        Raises:
            OSError: the connection is broken.
        """

        async def receive() -> bytes:
            return self._tls.recv(size)

        return await self._repeat(receive)

    async def send(self, data: bytes) -> None:
        """Encrypt and send all of it.

        Raises:
            OSError: the connection is broken.
        """

        async def flush() -> None:
            self._tls.flush()

        for begin in range(0, len(data), _PIECE_BYTES):
            self._tls.send(data[begin : begin + _PIECE_BYTES])
            await self._repeat(flush)

    async def _repeat(self, attempt: Callable[[], Awaitable[_Result]]) -> _Result:
        """Try until it needs nothing more of the client."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await attempt()
            except (ssl.SSLWantReadError, BlockingIOError):  # the latter: nothing has come
                await _until(self._client, loop.add_reader, loop.remove_reader)
            except ssl.SSLWantWriteError:
                await _until(self._client, loop.add_writer, loop.remove_writer)

    async def _step(self, step: Callable[[], _Result]) -> _Result:
        """Do a step in a thread.

        A step that runs ends before this does, so that the socket isn't closed under it: its
        number could be another file's by then.
        """
        running = self._threads.submit(step)
        waiting = asyncio.wrap_future(running)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            if not running.cancel():
                with contextlib.suppress(OSError):
                    await waiting
            raise


async def _until(
    client: socket.socket, add: Callable[..., None], remove: Callable[[int], object]
) -> None:
    """Wait for a client to have sent, or to take, something."""
    ready = asyncio.Event()
    number = client.fileno()
    add(number, ready.set)
    try:
        await ready.wait()
    finally:
        remove(number)
