"""Gathers requests, so that a thread gets a whole one and waits for no client.

A client that is slow, that shakes hands and says nothing, or that sends a byte a second costs a
socket for `request_seconds` and never a thread, and where sockets run out the one that has waited
longest is closed. Answers that clients don't read wait here likewise. A request that took
kube-scheduler longer than its `httpTimeout` to send would be answered too late.
"""

import asyncio
import contextlib
import errno
import functools
import itertools
import logging
import selectors
import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from extender.http.connection import ClientConnection, RequestRefused
from extender.http.handshake_budget import HandshakeBudget
from extender.http.interface import HttpSettings
from extender.http.request_threads import RequestThreads
from gpustack.adapters.web.rate_limited_log import RateLimitedLog
from gpustack.adapters.web.tls import TlsContexts

logger = logging.getLogger(__name__)

CONNECTIONS: Final = 512
"""Places; a scheduler opens a handful, and systemd allows a process 1024 files by default."""

STOP_SECONDS: Final = 10
"""What has begun when the process is told to stop is finished: more than any decision takes."""

# Go's client keeps idle connections for 90 s; closing earlier costs it a failed call now and then.
_KEEP_ALIVE_SECONDS: Final = 120.0
_STOP_KEEP_ALIVE_SECONDS: Final = 2.0  # for the request that may be on its way
# A close at once would tear the answer away from a client that still sends (RFC 9112, 9.6).
_CLOSING_SECONDS: Final = 2.0
_TICK_SECONDS: Final = 0.5
# So often is received before others have their turn: TLS hands out one record of 16 KiB at a time.
_RECEIPTS: Final = 64
# Of a connection that asks for no decision; nothing but a head is expected of it.
_OTHERS_RECEIPTS: Final = 4
# Answers that wait for their clients, in all: of a large cluster one has 10 MB.
_UNSENT_BYTES: Final = 1 << 25

_Step = Callable[[ClientConnection], None]
_Queue = dict[ClientConnection, None]  # the one that has waited longest comes first


class ConnectionLoop:
    """Has every connection but those whose requests threads are answering."""

    def __init__(
        self,
        settings: HttpSettings,
        contexts: TlsContexts | None,
        threads: RequestThreads,
        *,
        on_tick: Callable[[], None],
        on_refused: Callable[[str], None],
    ) -> None:
        """Prepare; ``run`` serves. Without ``contexts``, it serves plain HTTP.

        ``on_tick`` is called twice a second, as long as the loop turns; ``on_refused`` is called
        with the cause where a connection ends before its request.
        """
        self._settings = settings
        self._contexts = contexts
        self._threads = threads
        self._on_tick = on_tick
        self._on_refused = on_refused
        self._events = asyncio.SelectorEventLoop()
        self._count = 0
        # requests that arrive, kept connections, unread answers, ends of connections
        self._queues = tuple(_Queue() for _ in range(6))
        self._arriving, self._kept, self._sending, self._closing = self._queues[:4]
        self._held, self._submitted = self._queues[4:]  # answers; requests that threads have
        self._handshakes = HandshakeBudget(self._events)
        self._seldom = RateLimitedLog()

    def run(self, listener: socket.socket) -> None:
        """Serve until ``stop``; what has begun by then is finished."""
        self._listener = listener
        listener.setblocking(False)
        self._events.add_reader(listener, self._accept)
        self._events.call_soon(self._tick)
        self._events.run_forever()
        self._threads.shutdown()

    def stop(self) -> None:
        """Have ``run`` end; safe to call from a signal's handler."""
        if self._threads.alive:  # a worker is told by systemd and by the arbiter
            self._threads.alive = False
            self._events.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        self._events.remove_reader(self._listener)
        self._listener.close()  # a client that comes now is refused by the kernel, not forgotten
        for conn in self._kept:
            conn.until = min(conn.until, time.monotonic() + _STOP_KEEP_ALIVE_SECONDS)
        self._events.call_later(STOP_SECONDS if self._count else 0, self._events.stop)

    def _tick(self) -> None:
        """Say that the loop turns, and end what has waited too long."""
        self._events.call_later(_TICK_SECONDS, self._tick)
        self._on_tick()
        self._end_waits()

    def _accept(self) -> None:
        """Take a new connection; where there are too many, the slowest makes room."""
        try:
            sock, client = self._listener.accept()
        except OSError as error:  # of one connection that is gone, or of too many files
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._evict()
            return
        self._count += 1
        if self._count >= CONNECTIONS:
            self._evict()
        if self._count >= CONNECTIONS:  # all are being answered
            self._events.remove_reader(self._listener)
        conn = ClientConnection(sock, client, self._settings, self._contexts)
        self._wait(conn, self._arriving, self._settings.request_seconds, self._read)

    def _wait(self, conn: ClientConnection, queue: _Queue, seconds: float, step: _Step) -> None:
        """Take the next step of a connection when it is ready for it, within ``seconds``."""
        conn.wait(seconds)
        queue[conn] = None
        events = self._events
        watch = events.add_writer if queue is self._sending else events.add_reader
        watch(conn.sock, self._step, step, conn)

    def _step(self, step: _Step, conn: ClientConnection) -> None:
        try:
            step(conn)
        except RequestRefused as refused:
            self._refuse(conn, refused)
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except OSError as error:
            logger.debug("connection broke client=%s error=%s", conn.client, error)
            self._drop(conn)
        except Exception:  # the last line of this turn: what one client sends ends no other's
            logger.exception("connection failed client=%s", conn.client)
            self._drop(conn)

    def _read(self, conn: ClientConnection) -> None:
        """Receive; a complete request goes to the threads."""
        if self._kept.pop(conn, conn) is None:  # the next request of a kept connection begins
            self._arriving[conn] = None
            conn.wait(self._settings.request_seconds)
        if conn.shakes_hands and not self._handshakes.take(conn):
            return  # the selector names it again in the next turn
        if not conn.established:
            if conn.handshake() == selectors.EVENT_WRITE:
                self._events.add_writer(conn.sock, self._step, self._read, conn)
            else:
                self._events.remove_writer(conn.sock)
        if conn.established and self._receive(conn):
            # Those that threads have make no room for others.
            if len(self._submitted) >= CONNECTIONS // 2 and not conn.deciding:
                raise RequestRefused("connections", "too many requests at the same time", 503)
            self._answer(conn)

    def _receive(self, conn: ClientConnection) -> bool:
        """Take what has come; True when the request is complete."""
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
            for count in range(_RECEIPTS):
                conn.check_head()
                if conn.request.complete or (count >= _OTHERS_RECEIPTS and not conn.deciding):
                    break
                conn.receive()
        if conn.large:
            self._limit_memory(conn)
        return conn.request.complete

    def _limit_memory(self, newest: ClientConnection) -> None:
        """Keep what waits within twice the largest request, at the cost of the slowest."""
        large = [one for one in (*self._arriving, *self._submitted) if one.large]
        total = sum(one.request.kept_bytes for one in large)
        text = "too many large requests at the same time"
        for one in large:
            if total <= 2 * self._settings.request_limit_bytes:
                return
            if one is newest:
                raise RequestRefused("memory", text, 503)
            total -= one.request.kept_bytes
            self._refuse(one, RequestRefused("memory", text, 503))

    def _answer(self, conn: ClientConnection) -> None:
        self._release(conn)
        self._submitted[conn] = None
        self._threads.submit(conn).add_done_callback(
            lambda answer: self._events.call_soon_threadsafe(
                self._step, functools.partial(self._answered, answer), conn
            )
        )

    def _answered(self, answer: Future[bool], conn: ClientConnection) -> None:
        """Send what the client has not taken of its answer, then keep or close the connection."""
        self._release(conn)
        seconds, conn.hold_seconds = conn.hold_seconds, 0.0
        if seconds and self._threads.alive and len(self._held) < CONNECTIONS // 2:
            # `_evict` passes over these, as over what threads answer: half of the places are left.
            self._held[conn] = None
            step = functools.partial(self._answered, answer)
            self._events.call_later(seconds, self._step, step, conn)
            return
        if not conn.outgoing.kept_bytes:
            self._proceed(conn, answer.result())
            return
        step = functools.partial(self._send, answer.result())
        self._wait(conn, self._sending, self._settings.request_seconds, step)
        while sum(one.outgoing.kept_bytes for one in self._sending) > _UNSENT_BYTES:
            if (oldest := next(iter(self._sending))) is conn:
                break
            self._refuse(oldest, RequestRefused("memory", "too many answers wait to be read"))

    def _send(self, kept: bool, conn: ClientConnection) -> None:
        if conn.outgoing.flush():
            self._release(conn)
            self._proceed(conn, kept)

    def _proceed(self, conn: ClientConnection, kept: bool) -> None:
        """Keep or close the connection; what came of the next request already is looked at."""
        if not kept:  # what the client still sends is thrown away until it goes
            with contextlib.suppress(OSError):  # gone already, which the next step finds
                conn.sock.shutdown(socket.SHUT_WR)
            self._wait(conn, self._closing, _CLOSING_SECONDS, self._drain)
        elif conn.more:
            self._wait(conn, self._arriving, self._settings.request_seconds, self._read)
            self._step(self._read, conn)
        else:
            seconds = _KEEP_ALIVE_SECONDS if self._threads.alive else _STOP_KEEP_ALIVE_SECONDS
            self._wait(conn, self._kept, seconds, self._read)

    def _drain(self, conn: ClientConnection) -> None:
        if conn.drained():
            self._drop(conn)

    def _end_waits(self) -> None:
        """Close the connections whose request, next request, or end has not come in time."""
        seconds = self._settings.request_seconds
        for conn in self._overdue(self._arriving):
            if conn.too_large:  # which the answer says
                self._answer(conn)
            elif not conn.request.begun and not conn.in_handshake:
                self._drop(conn)  # opened in advance, as browsers do
            else:
                text = f"the request did not arrive within {seconds:g} s"
                self._refuse(conn, RequestRefused("slow", text, 408))
        for conn in self._overdue(self._sending):
            text = f"the answer was not read within {seconds:g} s"
            self._refuse(conn, RequestRefused("slow", text))
        for conn in (*self._overdue(self._closing), *self._overdue(self._kept)):
            self._drop(conn)

    @staticmethod
    def _overdue(queue: _Queue) -> list[ClientConnection]:
        return list(itertools.takewhile(lambda conn: conn.until <= time.monotonic(), queue))

    def _evict(self) -> None:
        """Close the connection that has waited longest; one that has decided comes last."""
        waiting = itertools.chain(self._closing, self._sending, self._arriving, self._kept)
        conn = min(waiting, key=lambda one: (one.decided, one.since), default=None)
        if conn in self._arriving:
            text = "too many connections at the same time"
            self._refuse(conn, RequestRefused("connections", text, 503))
        elif conn is not None:
            self._drop(conn)

    def _refuse(self, conn: ClientConnection, refused: RequestRefused) -> None:
        """Say why, to the log and, as far as possible without waiting, to the client."""
        self._on_refused(refused.cause)
        if self._seldom.may_say(str(refused)):
            text = "connection refused client=%s cause=%s: %s"
            logger.warning(text, conn.client, refused.cause, refused)
        conn.send_refusal(refused)
        self._drop(conn)

    def _drop(self, conn: ClientConnection) -> None:
        self._release(conn)
        conn.close()
        self._count -= 1
        if not self._count and not self._threads.alive:
            self._events.stop()
        elif self._count == CONNECTIONS - 1 and self._threads.alive:
            self._events.add_reader(self._listener, self._accept)

    def _release(self, conn: ClientConnection) -> None:
        self._events.remove_reader(conn.sock)
        self._events.remove_writer(conn.sock)
        self._handshakes.forget(conn)
        for queue in self._queues:
            queue.pop(conn, None)
