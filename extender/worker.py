"""The process that answers: gunicorn's threaded worker, with requests gathered in its loop.

A thread of gunicorn's own worker waits for the bytes of its request, so as many slow clients as
there are threads stop every decision. Here the loop gathers them: a client that is slow, that
shakes hands and says nothing, or that sends a byte a second costs a socket for `request_seconds`
and never a thread, and where sockets run out the one that has waited longest is closed. A request
that took kube-scheduler longer than its `httpTimeout` to send would be answered to nobody.

Everything else (signals, pool, keep-alive, graceful stop) is gunicorn's.
"""

import contextlib
import errno
import functools
import gc
import io
import json
import logging
import selectors
import socket
import ssl
import sys
import time
from typing import Any, Final

from gunicorn import http
from gunicorn.http.errors import NoMoreData
from gunicorn.workers import gthread

from extender import caller, direct, tls
from extender.arrival import Arrival
from extender.connection import Connection, Refused
from extender.settings import is_loopback

logger = logging.getLogger(__name__)

# TLS hands out one record of 16 KiB at a time; so many are taken before others have their turn.
_RECORDS: Final = 64
_HANDSHAKE: Final = b"\x16"  # first byte of a TLS record that begins a handshake (RFC 8446, 5.1)
# A connection that keeps more than this is among those that are closed when memory is short.
_LARGE_BYTES: Final = 1 << 20
# How long a thread waits for the next request of the connection that it has just answered: the
# scheduler's next question comes within a few milliseconds, and through the loop and the pool it
# would change threads three times. A longer pause costs nothing but the thread.
_LINGER_SECONDS: Final = 0.05
_SWITCH_SECONDS: Final = 0.0005
# Of a list of pods nearly every object stays. Looking for garbage after each 700 of them (Python's
# own measure) takes a tenth of the first sync and finds nothing.
_GARBAGE: Final = (20_000, 5, 20)
_TICK_SECONDS: Final = 0.5  # the loop turns once a second at least, and twice for each request
_SILENCE_SECONDS: Final = 10.0  # between two lines of the log about the same fault
_PASSING: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED)


class Worker(gthread.ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Gathers requests in the loop and answers them in threads."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._settings = self.app.settings
        self._said: dict[str, float] = {}
        self._next_tick = 0.0
        # The other half of the threads is there for whoever asks first.
        self._seats = [None] * max(1, self.cfg.threads // 2)
        # Threads that read a watch or write to the API server must not keep the scheduler, which
        # asks one question after another, waiting for the interpreter: 5 ms each time by default.
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.set_threshold(*_GARBAGE)

    def notify(self) -> None:
        """Show the arbiter and systemd that the loop turns; called at each of its turns."""
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
        conn = Connection(
            self.cfg, sock, client, listener.getsockname(), self._settings.request_limit_bytes
        )
        if self.nr_conns >= self.worker_connections:
            self._make_room()
        self._await(conn)

    def on_client_socket_readable(self, conn: Connection, client: Any) -> None:
        """Begin with the next request of a kept connection."""
        self.poller.unregister(client)
        self.keepalived_conns.remove(conn)
        self._await(conn)
        self._readable(conn, client)

    def finish_request(self, conn: Connection, fs: Any) -> None:
        """Keep or close the connection; what came of the next request already is looked at."""
        super().finish_request(conn, fs)
        if conn in self.keepalived_conns and conn.more:
            self.on_client_socket_readable(conn, conn.sock)

    def murder_pending(self) -> None:
        """Close the connections whose request has not arrived in time."""
        while self.pending_conns and self.pending_conns[0].timeout <= time.monotonic():
            conn = self.pending_conns[0]
            if conn.arrival.refused:
                self._enqueue(conn)  # to be told that it is too large
            elif not conn.arrival.begun and not conn.greeting:
                self._drop(conn)  # opened in advance, as browsers do
            else:
                seconds = self._settings.request_seconds
                text = f"the request did not arrive within {seconds:g} s"
                self._refuse(conn, Refused("slow", text, "408 Request Timeout"))

    def handle(self, conn: Connection) -> bool:
        """Answer a request, and those that follow it at once; runs in a thread.

        Returns whether the connection is kept.
        """
        request = None
        try:
            while True:
                arrived = conn.next_arrival()
                conn.sock.settimeout(self._settings.request_seconds)
                if (kept := self._answer_call(conn, arrived)) is None:
                    request = self._parse(conn, arrived)
                    kept = bool(self.handle_request(request, conn))
                if not kept or not self._follows(conn):
                    return kept
        except (StopIteration, NoMoreData) as error:
            logger.debug("connection ends client=%s error=%s", conn.client, error)
        except OSError as error:
            logger.debug("answer not taken client=%s error=%s", conn.client, error)
        except Exception as error:  # the last line of this thread, as gunicorn's own
            self.handle_error(request, conn.sock, conn.client, error)
        return False

    def _answer_call(self, conn: Connection, arrived: Arrival) -> bool | None:
        """Answer a call of the scheduler; None for any other request, and for any other client."""
        head, body = arrived.parts
        path, calls = direct.path_of(head), self.app.calls
        if arrived.refused or calls is None or path not in calls.paths:
            return None
        if self._settings.tls is not None and conn.client_name != self._settings.tls.client_name:
            return None
        caller.is_on(conn.sock)
        reply = calls.answer(path, body)
        kept = bool(self.alive)
        conn.sock.sendall(direct.response(reply.status, reply.body, kept=kept))
        return kept

    def _parse(self, conn: Connection, arrived: Arrival) -> http.Request:
        """Read a request with gunicorn's parser, for the application."""
        head, body = arrived.parts
        conn.parser = http.get_parser(self.cfg, [head], conn.client)
        request = next(conn.parser)
        request.body = io.BytesIO(body)
        if arrived.refused or any(name == "TRANSFER-ENCODING" for name, _ in request.headers):
            request.force_close()  # where the next request would begin is not known
        return request

    def _follows(self, conn: Connection) -> bool:
        """Wait a moment for the next request; False where it, or its rest, is left to the loop.

        Raises:
            OSError: the client has closed the connection.
        """
        try:
            self._seats.pop()  # a list's own steps are safe from any thread, and a lock's dearer
        except IndexError:
            return False
        try:
            until = time.monotonic() + _LINGER_SECONDS
            while self.alive and not conn.arrival.complete:
                left = until - time.monotonic()
                # Whoever waits for a word, and whatever is large, the loop knows how to treat.
                if left <= 0 or conn.arrival.continuable or conn.arrival.kept_bytes > _LARGE_BYTES:
                    return False
                conn.sock.settimeout(left)
                conn.receive()
            return bool(conn.arrival.complete)
        except (BlockingIOError, TimeoutError, ssl.SSLWantReadError):
            return False
        finally:
            self._seats.append(None)

    def _await(self, conn: Connection) -> None:
        conn.timeout = time.monotonic() + self._settings.request_seconds
        self.pending_conns.append(conn)
        self.poller.register(
            conn.sock, selectors.EVENT_READ, functools.partial(self._readable, conn)
        )

    def _readable(self, conn: Connection, _client: Any) -> None:
        try:
            if self._greet(conn) and self._receive(conn):
                self._enqueue(conn)
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except Refused as refused:
            self._refuse(conn, refused)
        except OSError as error:
            logger.debug("connection broke client=%s error=%s", conn.client, error)
            self._drop(conn)

    def _greet(self, conn: Connection) -> bool:
        """Shake hands, as far as it goes without waiting; True when done.

        Under TLS, this host may still ask without it: the application lets it read, not decide.
        """
        if conn.greeted:
            return True
        if self.app.contexts is not None and not isinstance(conn.sock, ssl.SSLSocket):
            first = conn.sock.recv(1, socket.MSG_PEEK)
            if first == _HANDSHAKE:
                context = self.app.contexts.current()
                conn.sock = context.wrap_socket(
                    conn.sock, server_side=True, do_handshake_on_connect=False
                )
            elif first and not is_loopback(conn.sock.getsockname()[0]):
                raise Refused("not_tls", "this address speaks TLS only: ask https", "400 No TLS")
        if isinstance(conn.sock, ssl.SSLSocket):
            self._shake_hands(conn)
        conn.greeted = True
        return True

    def _shake_hands(self, conn: Connection) -> None:
        wanted, callback = selectors.EVENT_READ, functools.partial(self._readable, conn)
        try:
            conn.sock.do_handshake()
        except ssl.SSLWantWriteError as error:
            wanted = selectors.EVENT_WRITE
            raise BlockingIOError from error
        except ssl.SSLWantReadError:
            raise
        except OSError as error:
            raise Refused(*tls.explain(error)) from error
        finally:
            self.poller.modify(conn.sock, wanted, callback)

    def _receive(self, conn: Connection) -> bool:
        """Take what has come; True when the request is complete."""
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
            for _ in range(_RECORDS):
                self._look_at(conn)
                if conn.arrival.complete:
                    return True
                conn.receive()
        self._spare_memory(conn)
        return bool(conn.arrival.complete)

    def _look_at(self, conn: Connection) -> None:
        """Refuse a head without an end; tell who waits for it to go on."""
        if conn.arrival.too_long:
            status = "431 Request Header Fields Too Large"
            raise Refused("head_too_long", "the request's headers are too long", status)
        if conn.arrival.continuable and not conn.arrival.complete:
            conn.arrival.continuable = False
            conn.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _spare_memory(self, newest: Connection) -> None:
        """Keep what has arrived within twice the largest request, at the cost of the slowest."""
        if newest.arrival.kept_bytes <= _LARGE_BYTES:
            return
        large = [one for one in self.pending_conns if one.arrival.kept_bytes > _LARGE_BYTES]
        total = sum(one.arrival.kept_bytes for one in large)
        for one in large:
            if total <= 2 * self._settings.request_limit_bytes or one is newest:
                return
            total -= one.arrival.kept_bytes
            text = "too many large requests at the same time"
            self._refuse(one, Refused("memory", text, "503 Service Unavailable"))

    def _enqueue(self, conn: Connection) -> None:
        self._release(conn)
        self.enqueue_req(conn)

    def _make_room(self) -> None:
        """Close the connection that has waited longest."""
        if self.pending_conns:
            text = "too many connections at the same time"
            refused = Refused("connections", text, "503 Service Unavailable")
            self._refuse(self.pending_conns[0], refused)
        elif self.keepalived_conns:
            conn = self.keepalived_conns.popleft()
            self.poller.unregister(conn.sock)
            self._close(conn)

    def _refuse(self, conn: Connection, refused: Refused) -> None:
        """Say why, to the log and, as far as possible without waiting, to the client."""
        self.app.refused(refused.cause)
        now = time.monotonic()
        if now - self._said.get(str(refused), -_SILENCE_SECONDS) >= _SILENCE_SECONDS:
            self._said[str(refused)] = now
            logger.warning(
                "connection refused client=%s cause=%s: %s", conn.client, refused.cause, refused
            )
        body = json.dumps({"Error": str(refused)})
        if refused.status and not conn.greeting:
            answer = (
                f"HTTP/1.1 {refused.status}\r\nConnection: close\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
            )
            try:
                conn.sock.send(answer.encode())
            except OSError as error:
                logger.debug("refusal not taken client=%s error=%s", conn.client, error)
        self._drop(conn)

    def _drop(self, conn: Connection) -> None:
        self._release(conn)
        self._close(conn)

    def _release(self, conn: Connection) -> None:
        self.poller.unregister(conn.sock)
        self.pending_conns.remove(conn)

    def _close(self, conn: Connection) -> None:
        self.nr_conns -= 1
        conn.close()
