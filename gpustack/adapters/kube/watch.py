"""List once, then follow every change: what Kubernetes clients call a reflector.

The API server promises that a watch from a list's ``resourceVersion`` shows every later change in
order, until it has forgotten that version (410) and the list must be read again. Silence is
ambiguous: a watch asks for bookmarks, but the server promises none, and sends none of a resource
without a change since it started. So each watch asks the server to end it before silence would
count as a loss: a client that sees neither a change nor an end has lost the connection.
See https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes.
"""

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

import msgspec
import urllib3

from gpustack.adapters.kube.client import KubeClient
from gpustack.adapters.kube.errors import KubeError, KubeTimeout, KubeUnavailable
from gpustack.adapters.kube.listing import (
    WatchEvent,
    decode_change,
    decode_status,
    version_of,
)
from gpustack.adapters.kube.paging import MOST_ITEMS, SHRUNK
from gpustack.adapters.kube.streams import lines_of, one_ahead
from gpustack.wire.kube import managed_fields

logger = logging.getLogger(__name__)

KubeObject = dict[str, Any]
_Item = TypeVar("_Item")

_IDLE_SECONDS: Final = 90.0
# Of that, the time for which the server keeps a watch open: it spreads the requests of clients that
# started together, and leaves time for the late end of a busy server.
_WATCH_PARTS: Final = (0.5, 0.75)
# An API server that was away so long may come back with its store restored from a backup: a watch
# from our version would leave out what differs. A server that only restarts is back sooner, or
# another one answers.
_RESTORED_SECONDS: Final = 10.0
_SPIN_SECONDS: Final = 0.5  # below the shortest watch that can be asked for, a second
_BACKOFF_FIRST_SECONDS: Final = 0.2
_BACKOFF_LAST_SECONDS: Final = 5.0  # recovery within 5 s of the server's return
_STOP_SECONDS: Final = 5.0
_ANY: Final = msgspec.json.Decoder(dict[str, Any])


class Watcher(Generic[_Item]):
    """A thread that keeps a follower up to date with one list of objects.

    ``decode`` makes the follower's object of an object's bytes, page by page: of a long list
    only these objects are ever in memory as a whole.

    ``on_sync`` gets the whole list, at first and whenever it had to be read again; ``on_event``
    gets each change (``ADDED``, ``MODIFIED``, ``DELETED``) after it. Both run on the watcher's
    thread, one at a time, in the server's order. A bookmark reaches neither. After each of them,
    and after a bookmark, ``on_progress`` gets the ``resourceVersion`` that the follower is at, and
    an empty text before a list is asked for.

    Objects and their versions go back where the server's store is restored from a backup, so after
    a server was away for long the whole list is read again.

    Attributes:
        synced: the follower has had a list.
        last_seen: time of the server's last message (seconds of ``clock``); 0 before.
        problem: why none comes, for people; empty while they come.
    """

    def __init__(
        self,
        client: KubeClient,
        path: str,
        *,
        decode: Callable[[msgspec.Raw], _Item],
        on_sync: Callable[[list[_Item]], None],
        on_event: Callable[[str, _Item], None],
        on_progress: Callable[[str], None] | None = None,
        field_selector: str = "",
        label_selector: str = "",
        idle_seconds: float = _IDLE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.synced = threading.Event()
        self.last_seen = 0.0
        self.problem = ""
        self._client = client
        self._path = path
        self._on_sync = on_sync
        self._on_event = on_event
        self._on_progress = on_progress
        self._decode = decode
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._selectors = {
            name: value
            for name, value in (
                ("fieldSelector", field_selector),
                ("labelSelector", label_selector),
            )
            if value
        }
        self._version = ""
        self._failures = 0
        self._most_items = MOST_ITEMS
        self._lost: float | None = None  # since when the server is away
        self._stop = threading.Event()
        self._stream_lock = threading.Lock()
        self._open_stream: urllib3.BaseHTTPResponse | None = None  # guarded by _stream_lock
        self._thread = threading.Thread(target=self._run, name=f"watch {path}", daemon=True)

    def start(self) -> None:
        """Begin to list and watch; returns at once (wait on ``synced``)."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, also when it waits for the server; no callback runs afterwards."""
        self._stop.set()
        with self._stream_lock:
            if self._open_stream is not None:
                # A stream that has just ended by itself needs no shutdown.
                with contextlib.suppress(OSError, ValueError):
                    self._open_stream.shutdown()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            # Longer only for a server that accepts and stays silent; then no callback runs.
            self._thread.join(timeout=_STOP_SECONDS)

    @property
    def version(self) -> str:
        """The ``resourceVersion`` that the follower is at; during ``on_sync`` the list's own."""
        return self._version

    @property
    def age_seconds(self) -> float:
        """Seconds since the server's last message; infinite before the first list."""
        return self._clock() - self.last_seen if self.last_seen else float("inf")

    def _run(self) -> None:
        while not self._stop.is_set():
            self.turn()
            self._pause()

    def turn(self) -> None:
        """Read the list, where that is needed, and follow one watch to its end; no error leaves it.

        The thread calls it; a caller without a thread calls it itself.
        """
        try:
            if not self._version:
                self._list()
            self._follow()
        except KubeError as error:
            self._version = ""
            self._failures += 1
            self.problem = "" if error.gone else str(error)
            level = logging.INFO if error.gone else logging.WARNING
            logger.log(level, "watch refused, listing again path=%s %s", self._path, error)
        except KubeUnavailable as error:
            self._failures += 1
            self.problem = str(error)
            if self._lost is None:
                silent = self.age_seconds >= self._idle_seconds
                self._lost = self.last_seen if silent else self._clock()
            if not self._stop.is_set():
                logger.warning("watch lost path=%s error=%s", self._path, error)
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"
            # Last resort of this thread: a follower that could not take a change holds an
            # unknown state, and a watcher that died silently would leave that state stale.
            logger.exception("watch follower failed, listing again path=%s", self._path)
            self._failures += 1
            self._version = ""

    def _pause(self) -> None:
        if self._failures == 0:
            return
        longest = min(_BACKOFF_LAST_SECONDS, _BACKOFF_FIRST_SECONDS * 2 ** min(self._failures, 8))
        # Jitter keeps a fleet of agents from reconnecting at the same time.
        self._stop.wait(longest * random.uniform(0.5, 1.0))  # noqa: S311

    def _list(self) -> None:
        """Read the whole list; without ``resourceVersion`` it is consistent."""
        if self._on_progress is not None:
            self._on_progress("")
        items: list[_Item] = []
        version = ""
        pages = self._client.pages(self._path, self._selectors, most=self._most_items)
        try:
            for page in one_ahead(pages):
                items.extend(map(self._decode, page.items))
                version = page.version
                if self._stop.is_set():
                    return
        except KubeTimeout:  # a server before 1.33 makes a page of any size before it sends a byte
            self._most_items = max(1, self._most_items // SHRUNK)
            raise
        self._most_items = MOST_ITEMS
        self._version = version
        self._on_sync(items)
        self._seen()
        self.synced.set()

    def _follow(self) -> None:
        """Take changes until the server ends the watch, which it is asked to do."""
        params = {
            **self._selectors,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(self._watch_seconds()),
        }
        opened = self._clock()
        with (
            self._client.stream(self._path, params, idle_seconds=self._idle_seconds) as response,
            self._stoppable(response),
        ):
            if self._lost is not None and self._clock() - self._lost > _RESTORED_SECONDS:
                self._version, self._failures = "", 0  # it answers again: list at once
                return
            self._answered()
            for line in lines_of(response, self._check_silence):
                self._take(decode_change(line))
        if self._clock() - opened < _SPIN_SECONDS:
            self._failures += 1  # a proxy in between closes watches at once: don't spin on it
        else:
            self._failures = 0
        logger.debug("watch ended, opening it again path=%s", self._path)

    def _check_silence(self) -> None:
        """Give up a watch that keeps its connection busy with neither a change nor an end."""
        if self._clock() - self.last_seen > self._idle_seconds:
            raise KubeUnavailable(f"GET {self._path}: no change in {self._idle_seconds:g} s")

    def _watch_seconds(self) -> int:
        part = random.uniform(*_WATCH_PARTS)  # noqa: S311
        return max(1, int(part * self._idle_seconds))

    @contextlib.contextmanager
    def _stoppable(self, response: urllib3.BaseHTTPResponse) -> Iterator[None]:
        """Let ``stop`` interrupt a read of this response."""
        with self._stream_lock:
            if self._stop.is_set():
                raise KubeUnavailable("stopping")
            self._open_stream = response
        try:
            yield
        finally:
            with self._stream_lock:
                self._open_stream = None

    def _take(self, change: WatchEvent) -> None:
        if self._stop.is_set():
            return
        if change.kind == "ERROR":
            status = decode_status(change.raw)
            raise KubeError(status.code, status.reason, status.message)
        if change.kind != "BOOKMARK":
            self._on_event(change.kind, self._decode(change.raw))
        self._version = version_of(change.raw)
        self._failures = 0  # not with a list: where each watch is refused, lists become rare
        self._seen()

    def _answered(self) -> None:
        self.last_seen = self._clock()
        self.problem = ""
        self._lost = None

    def _seen(self) -> None:
        self._answered()
        if self._on_progress is not None:
            self._on_progress(self._version)


def as_json(raw: msgspec.Raw) -> KubeObject:
    """Decode an object as a whole: the ``decode`` of a follower that reads plain JSON."""
    return managed_fields.decode(_ANY, raw)
