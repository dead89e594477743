"""Answers complete requests in threads.

Two pools: one for decisions, of clients that may ask for them, and a small one for everything else,
so that no other question stands before the scheduler's. Large requests have one thread, because few
of them may be in memory: kube-scheduler asks about all nodes one pod after another. In each pool a
connection gets one answer a turn, and what it has sent ahead goes to the end of the queue.
"""

import contextlib
import functools
import logging
import ssl
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from extender.http import disconnect, fast_path, heads
from extender.http.connection import ClientConnection
from extender.http.interface import HttpSettings, SchedulerCalls
from extender.http.request_buffer import RequestBuffer

logger = logging.getLogger(__name__)

# One explanation of a pod (`api`), and a probe beside it. Each more that computes slows the
# scheduler's calls down, because one thread at a time has the interpreter.
_OTHERS: Final = 2
# How long a thread waits for the next request of the connection that it has just answered: the
# scheduler's next question comes within a few milliseconds, and through the loop and the pool it
# would change threads three times. A longer pause costs nothing but the thread.
_LINGER_SECONDS: Final = 0.05


class RequestThreads:
    """Has the connections whose requests are complete.

    Attributes:
        alive: connections are kept after their answers; False once the process is to stop.
    """

    def __init__(
        self,
        settings: HttpSettings,
        calls: SchedulerCalls,
        other: Callable[[ClientConnection, RequestBuffer], bool],
    ) -> None:
        """Start no thread yet.

        ``other`` answers a request that is no scheduler's call into its connection's ``outgoing``,
        and returns whether the connection may be kept.
        """
        self.alive = True
        self._calls = calls
        self._other = other
        self._limit_bytes = settings.request_limit_bytes
        self._reader = fast_path.FastPath(settings.hosts)
        self._deciding = ThreadPoolExecutor(settings.threads)
        self._others = ThreadPoolExecutor(_OTHERS)
        self._large = ThreadPoolExecutor(1)
        # The other half of the threads is there for new requests.
        self._lingering_slots = [None] * max(1, settings.threads // 2)

    def submit(self, conn: ClientConnection) -> Future[bool]:
        """Have a request answered; the result says whether the connection is kept."""
        deciding = conn.deciding
        conn.decided = conn.decided or deciding
        pool = self._large if conn.large else self._deciding if deciding else self._others
        return pool.submit(self._handle, conn)

    def shutdown(self) -> None:
        """Answer nothing more."""
        for pool in (self._deciding, self._others, self._large):
            pool.shutdown(wait=False)

    def _handle(self, conn: ClientConnection) -> bool:
        """Answer a request, and decisions that are asked for right after it."""
        try:
            while True:
                deciding = conn.deciding
                kept = self._answer(conn, deciding)
                if conn.hold_seconds:
                    return kept
                gone = conn.outgoing.flush()
                if not kept or not gone or not deciding or not self._follows(conn):
                    return kept
        except OSError as error:
            logger.debug("answer not taken client=%s error=%s", conn.client, error)
        except Exception:  # the last line of this thread
            logger.exception("request failed client=%s", conn.client)
        return False

    def _answer(self, conn: ClientConnection, deciding: bool) -> bool:
        """Write an answer into ``outgoing``; returns whether the connection may be kept."""
        too_large, arrived = conn.too_large, conn.next_request()
        if too_large:
            conn.outgoing.sendall(fast_path.refusal(heads.too_large(self._limit_bytes)))
            return False
        path = self._reader.path_of(arrived.head) if deciding else None
        if path is None or path not in self._calls.paths:
            return self._other(conn, arrived)
        gone = functools.partial(disconnect.is_closed, conn.sock)
        reply = self._calls.answer(path, arrived.body, disconnected=gone)
        kept = self.alive
        conn.hold_seconds = reply.hold_seconds
        conn.outgoing.sendall(fast_path.response(reply.status, reply.body, kept=kept))
        return kept

    def _follows(self, conn: ClientConnection) -> bool:
        """Wait a moment for the next call; False where it, or its rest, is left to the loop.

        Raises:
            OSError: the client has closed the connection.
        """
        ahead = conn.request.complete
        if ahead:  # as no scheduler does: other connections have their turn before it
            return False
        try:
            self._lingering_slots.pop()  # a list's own steps are safe in threads; a lock is dearer
        except IndexError:
            return False
        try:
            until = time.monotonic() + _LINGER_SECONDS
            while not conn.request.complete:
                left = until - time.monotonic()
                # The loop knows how to treat a client that waits for a word, and a large request.
                if left <= 0 or conn.large or conn.request.continuable or not self.alive:
                    return False
                # What has come may be a byte of a TLS record: it makes this wait no longer.
                if conn.awaits(left):
                    with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
                        conn.receive()
            return conn.deciding
        finally:
            self._lingering_slots.append(None)
