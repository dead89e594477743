"""Gathers requests: gunicorn's threaded worker, whose loop receives instead of its threads.

A thread of gunicorn's own worker waits for the bytes of its request, so as many slow clients as
there are threads stop every decision. Here the loop gathers them: a client that is slow, that
shakes hands and says nothing, or that sends a byte a second costs a socket for `request_seconds`
and never a thread, and where sockets run out the one that has waited longest is closed. Answers
that clients don't read wait here likewise. A request that took kube-scheduler longer than its
`httpTimeout` to send would be answered to nobody.

Everything else (signals, keep-alive, graceful stop) is gunicorn's.
"""

import collections
import contextlib
import errno
import functools
import logging
import selectors
import ssl
import time
from concurrent.futures import Future
from typing import Any, Final

from gunicorn.workers import gthread

from extender.http import fast_path
from extender.http.connection import LARGE_BYTES, ClientConnection, RequestRefused
from extender.observability.rate_limited_log import RateLimitedLog
from gpustack.wire.host_header import HttpRefusal

logger = logging.getLogger(__name__)

# So often is received before others have their turn: TLS hands out one record of 16 KiB at a time.
_RECEIPTS: Final = 64
# Of a connection that asks for no decision; nothing but a head is expected of it.
_OTHERS_RECEIPTS: Final = 4
# Steps of handshakes in a turn, a millisecond or two each: those let in already are heard then.
_HANDSHAKES: Final = 8
_TICK_SECONDS: Final = 0.5  # the loop turns once a second at least, and twice for each request
# Answers that wait for their clients, in all: of a large cluster one has 10 MB.
_UNSENT_BYTES: Final = 1 << 25
_PASSING: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED)


class BufferingWorker(gthread.ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Has every connection but those whose requests threads are answering."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._settings = self.app.settings
        self._leaving: collections.deque[ClientConnection] = collections.deque()
        self._sending: collections.deque[ClientConnection] = collections.deque()
        self._seldom = RateLimitedLog()
        self._next_tick = 0.0
        self._handshakes = 0  # that this turn has room for

    def notify(self) -> None:
        """Show the arbiter and systemd that the loop turns; called at each of its turns."""
        self._handshakes = _HANDSHAKES
        now = time.monotonic()
        if now < self._next_tick:
            return
        self._next_tick = now + _TICK_SECONDS
        super().notify()
        self.app.tick()

    def accept(self, listener: Any) -> None:
        """Take a new connection; where there are too many, the slowest makes room."""
        try:
            sock, client = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._make_room()
            elif error.errno not in _PASSING:
                raise
            return
        self.nr_conns += 1
        conn = ClientConnection(self.cfg, sock, client, listener.getsockname(), self._settings)
        if self.nr_conns >= self.worker_connections:
            self._make_room()
        self._await(conn)

    def on_client_socket_readable(self, conn: ClientConnection, client: Any) -> None:
        """Begin with the next request of a kept connection."""
        if conn.closed:  # to make room, by what came before it in the same turn
            return
        self.poller.unregister(client)
        self.keepalived_conns.remove(conn)
        self._await(conn)
        self._readable(conn, client)

    def finish_request(self, conn: ClientConnection, fs: Future[bool]) -> None:
        """Send what the client has not taken of its answer, then keep or close the connection."""
        kept = not fs.cancelled() and fs.exception() is None and bool(fs.result())
        if not conn.outgoing.kept_bytes:
            self._proceed(conn, kept)
            return
        conn.wait(self._settings.request_seconds)
        self._sending.append(conn)
        writable = functools.partial(self._send, conn, kept)
        self.poller.register(conn.sock, selectors.EVENT_WRITE, writable)
        while self._unsent_bytes() > _UNSENT_BYTES and self._sending[0] is not conn:
            self._refuse(
                self._sending[0], RequestRefused("memory", "too many answers wait to be read")
            )

    def _unsent_bytes(self) -> int:
        return sum(one.outgoing.kept_bytes for one in self._sending)

    def _send(self, conn: ClientConnection, kept: bool, _client: Any) -> None:
        if conn.closed:  # to make room, by what came before it in the same turn
            return
        try:
            if conn.outgoing.flush():
                self._release(conn)
                self._proceed(conn, kept)
        except OSError as error:
            logger.debug("answer not taken client=%s error=%s", conn.client, error)
            self._drop(conn)

    def _proceed(self, conn: ClientConnection, kept: bool) -> None:
        """Keep or close the connection; what came of the next request already is looked at."""
        if not kept:
            self._leave(conn)
            return
        conn.sock.setblocking(False)
        if conn.more:
            self._await(conn)
            self._readable(conn, conn.sock)
            return
        # A stopping worker keeps it for the request that may be on its way, and no longer.
        conn.wait(self.cfg.keepalive if self.alive else gthread.STOP_KEEPALIVE_LINGER)
        self.keepalived_conns.append(conn)
        asked = functools.partial(self.on_client_socket_readable, conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, asked)

    def murder_pending(self) -> None:
        """Close the connections whose request, or whose end, has not arrived in time."""
        now = time.monotonic()
        while self.pending_conns and self.pending_conns[0].timeout <= now:
            conn = self.pending_conns[0]
            if conn.too_large:
                self._enqueue(conn)  # to be told so
            elif not conn.arrival.begun and not conn.greeting:
                self._drop(conn)  # opened in advance, as browsers do
            else:
                seconds = self._settings.request_seconds
                text = f"the request did not arrive within {seconds:g} s"
                self._refuse(conn, RequestRefused("slow", text, 408))
        while self._sending and self._sending[0].timeout <= now:
            text = f"the answer was not read within {self._settings.request_seconds:g} s"
            self._refuse(self._sending[0], RequestRefused("slow", text))
        while self._leaving and self._leaving[0].timeout <= now:
            self._drop(self._leaving[0])

    def _await(self, conn: ClientConnection) -> None:
        conn.wait(self._settings.request_seconds)
        self.pending_conns.append(conn)
        readable = functools.partial(self._readable, conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, readable)

    def _readable(self, conn: ClientConnection, _client: Any) -> None:
        if conn.closed:  # to make room, by what came before it in the same turn
            return
        try:
            if self._greet(conn) and self._receive(conn):
                self._enqueue(conn)
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

    def _greet(self, conn: ClientConnection) -> bool:
        """Shake hands, as far as it goes without waiting; True when done."""
        if not conn.greeted:
            secured = self.app.contexts is not None and conn.shakes_hands
            if secured and not self._handshakes:
                return False  # the poller names it again in the next turn
            self._handshakes -= secured
            wanted = conn.greet(self.app.contexts) or selectors.EVENT_READ
            self.poller.modify(conn.sock, wanted, functools.partial(self._readable, conn))
        return conn.greeted

    def _receive(self, conn: ClientConnection) -> bool:
        """Take what has come; True when the request is complete."""
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
            for count in range(_RECEIPTS):
                self._look_at(conn)
                if conn.arrival.complete:
                    return True
                if count >= _OTHERS_RECEIPTS and not conn.deciding:
                    break
                conn.receive()
        self._spare_memory(conn)
        return conn.arrival.complete

    def _look_at(self, conn: ClientConnection) -> None:
        """Refuse a head without an end; tell who waits for it to go on."""
        if conn.arrival.too_long:
            raise RequestRefused("head_too_long", "the request's headers are too long", 431)
        if conn.arrival.continuable and not conn.arrival.complete:
            conn.arrival.continuable = False
            conn.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _spare_memory(self, newest: ClientConnection) -> None:
        """Keep what has arrived within twice the largest request, at the cost of the slowest."""
        if newest.arrival.kept_bytes <= LARGE_BYTES:
            return
        large = [one for one in self.pending_conns if one.arrival.kept_bytes > LARGE_BYTES]
        total = sum(one.arrival.kept_bytes for one in large)
        for one in large:
            if total <= 2 * self._settings.request_limit_bytes or one is newest:
                return
            total -= one.arrival.kept_bytes
            self._refuse(
                one, RequestRefused("memory", "too many large requests at the same time", 503)
            )

    def _enqueue(self, conn: ClientConnection) -> None:
        self._release(conn)
        self.enqueue_req(conn)

    def _make_room(self) -> None:
        """Close the connection that has waited longest; one that has decided comes last."""
        waiting = [*self._leaving, *self._sending, *self.pending_conns, *self.keepalived_conns]
        conn = min(waiting, key=lambda one: (one.decided, one.since), default=None)
        if conn is None:
            return
        if conn in self.pending_conns:
            self._refuse(
                conn, RequestRefused("connections", "too many connections at the same time", 503)
            )
        else:
            self._drop(conn)

    def _refuse(self, conn: ClientConnection, refused: RequestRefused) -> None:
        """Say why, to the log and, as far as possible without waiting, to the client."""
        self.app.refused(refused.cause)
        if self._seldom.may_say(str(refused)):
            logger.warning(
                "connection refused client=%s cause=%s: %s", conn.client, refused.cause, refused
            )
        if refused.status and not conn.greeting:
            try:
                conn.sock.send(fast_path.refusal(HttpRefusal(refused.status, str(refused))))
            except OSError as error:
                logger.debug("refusal not taken client=%s error=%s", conn.client, error)
        self._drop(conn)

    def _leave(self, conn: ClientConnection) -> None:
        """Close a connection after its answer, which gunicorn's own loop would wait for."""
        try:
            conn.leave()
        except OSError:
            self._close(conn)
            return
        self._leaving.append(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, functools.partial(self._drain, conn))

    def _drain(self, conn: ClientConnection, _client: Any) -> None:
        if not conn.closed and conn.drained():
            self._drop(conn)

    def _drop(self, conn: ClientConnection) -> None:
        self._release(conn)
        self._close(conn)

    def _release(self, conn: ClientConnection) -> None:
        self.poller.unregister(conn.sock)
        for waiting in (self.pending_conns, self.keepalived_conns, self._sending, self._leaving):
            with contextlib.suppress(ValueError):
                waiting.remove(conn)
                return

    def _close(self, conn: ClientConnection) -> None:
        self.nr_conns -= 1
        conn.close()
