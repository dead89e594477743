"""The process that answers: gunicorn's threaded worker, with requests gathered in its loop.

Two pools of threads: one for decisions, of those who may ask for them, and a small one for
everything else, so that nobody's questions stand before the scheduler's. In both a connection gets
one answer a turn, and what it has sent ahead goes to the end of the queue.
"""

import gc
import io
import logging
import ssl
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from gunicorn import http
from gunicorn.http.errors import NoMoreData

from extender.http import disconnect, fast_path, heads
from extender.http.connection import LARGE_BYTES, ClientConnection
from extender.http.loop import BufferingWorker
from extender.http.request_buffer import RequestBuffer

logger = logging.getLogger(__name__)

# One explanation of a pod (`api`), and a probe beside it. Each more that computes slows the
# scheduler's calls down, because one thread at a time has the interpreter.
_OTHERS: Final = 2
# How long a thread waits for the next request of the connection that it has just answered: the
# scheduler's next question comes within a few milliseconds, and through the loop and the pool it
# would change threads three times. A longer pause costs nothing but the thread.
_LINGER_SECONDS: Final = 0.05
_SWITCH_SECONDS: Final = 0.0005
# Of a list of pods nearly every object stays. Looking for garbage after each 700 of them (Python's
# own measure) takes a tenth of the first sync and finds nothing.
_GARBAGE: Final = (20_000, 5, 20)


class _Answered:
    """A connection, for gunicorn: its answer waits for no client, and the loop sends the rest."""

    def __init__(self, conn: ClientConnection) -> None:
        self.sock = conn.outgoing
        self.client = conn.client
        self.server = conn.server


class Worker(BufferingWorker):
    """Answers requests in threads."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._reader = fast_path.FastPath(self._settings.hosts)
        self._others = ThreadPoolExecutor(_OTHERS)
        # The other half of the threads is there for whoever asks first.
        self._seats = [None] * max(1, self.cfg.threads // 2)
        # Threads that read a watch or write to the API server must not keep the scheduler, which
        # asks one question after another, waiting for the interpreter: 5 ms each time by default.
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.set_threshold(*_GARBAGE)

    def enqueue_req(self, conn: ClientConnection) -> None:
        """Have a request answered: a decision by the threads that are kept for decisions."""
        deciding = conn.deciding
        conn.decided = conn.decided or deciding
        answered = (self.tpool if deciding else self._others).submit(self.handle, conn)
        answered.add_done_callback(
            lambda done: self.method_queue.defer(self.finish_request, conn, done)
        )

    def run(self) -> None:
        """Serve until the process is told to stop."""
        super().run()
        self._others.shutdown(wait=False)

    def handle(self, conn: ClientConnection) -> bool:
        """Answer a request, and decisions that are asked for right after it; runs in a thread.

        Returns whether the connection is kept.
        """
        request = None
        try:
            while True:
                deciding, too_large, arrived = conn.deciding, conn.too_large, conn.next_arrival()
                if too_large:
                    refused = heads.too_large(self._settings.request_limit_bytes)
                    conn.outgoing.sendall(fast_path.refusal(refused))
                    kept: bool | None = False
                elif not deciding or (kept := self._answer_call(conn, arrived)) is None:
                    request = self._parse(conn, arrived)
                    kept = bool(self.handle_request(request, _Answered(conn)))
                gone = conn.outgoing.flush()
                if not kept or not gone or not deciding or not self._follows(conn):
                    return bool(kept)
        except (StopIteration, NoMoreData) as error:
            logger.debug("connection ends client=%s error=%s", conn.client, error)
        except OSError as error:
            logger.debug("answer not taken client=%s error=%s", conn.client, error)
        except Exception as error:  # the last line of this thread, as gunicorn's own
            self.handle_error(request, conn.sock, conn.client, error)
        return False

    def _answer_call(self, conn: ClientConnection, arrived: RequestBuffer) -> bool | None:
        """Answer a call in the scheduler's own form; None for any other form."""
        path, calls = self._reader.path_of(arrived.head), self.app.calls
        if calls is None or path not in calls.paths:
            return None
        disconnect.is_on(conn.sock)
        reply = calls.answer(path, arrived.body)
        kept = bool(self.alive)
        conn.outgoing.sendall(fast_path.response(reply.status, reply.body, kept=kept))
        return kept

    def _parse(self, conn: ClientConnection, arrived: RequestBuffer) -> http.Request:
        """Read a request with gunicorn's parser, for the application."""
        conn.parser = http.get_parser(self.cfg, [arrived.head], conn.client)
        request = next(conn.parser)
        request.body = io.BytesIO(arrived.body)
        if arrived.refused or any(name == "TRANSFER-ENCODING" for name, _ in request.headers):
            request.force_close()  # where the next request would begin is not known
        return request

    def _follows(self, conn: ClientConnection) -> bool:
        """Wait a moment for the next call; False where it, or its rest, is left to the loop.

        Raises:
            OSError: the client has closed the connection.
        """
        ahead = conn.arrival.complete
        if ahead:  # as no scheduler does: those who wait have their turn before it
            return False
        try:
            self._seats.pop()  # a list's own steps are safe from any thread, and a lock's dearer
        except IndexError:
            return False
        try:
            until = time.monotonic() + _LINGER_SECONDS
            while not conn.arrival.complete:
                left = until - time.monotonic()
                # Whoever waits for a word, and whatever is large, the loop knows how to treat.
                large = conn.arrival.kept_bytes > LARGE_BYTES
                if left <= 0 or large or conn.arrival.continuable or not self.alive:
                    return False
                conn.sock.settimeout(left)
                conn.receive()
            return conn.deciding
        except (BlockingIOError, TimeoutError, ssl.SSLWantReadError):
            return False
        finally:
            self._seats.append(None)
