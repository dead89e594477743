"""A listening socket's connections on an event loop, none of them lost."""

import asyncio
import socket


async def accept(listener: socket.socket) -> socket.socket:
    """Return the next connection of a non-blocking listener; OSError where none could be taken.

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
