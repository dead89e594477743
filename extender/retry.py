"""Pods that were refused are looked at again as soon as cards become free.

The scheduler wakes a refused pod when it sees something change, and may well see it before we do;
it then asks, hears no, and would let the pod wait for minutes. So when *our* view shows room, the
pods refused until then get the annotation `gpu-retry`, which wakes them.
"""

import threading
from collections.abc import Callable
from typing import Final

from extender.pods import PodState
from extender.writer import PodWriter

_PER_SECOND: Final = 20  # writes; bounds what a queue of thousands of waiting pods may cost
_MOST_WAITING: Final = 20_000  # beyond it the oldest wait for the scheduler's own flush
_TICK_SECONDS: Final = 1.0  # how late a reservation's end by age may be noticed


class RetryQueue:
    """The refused pods, and a thread that wakes them."""

    def __init__(
        self, writer: PodWriter, *, now_ns: Callable[[], int], on_tick: Callable[[], None]
    ) -> None:
        self._writer = writer
        self._now_ns = now_ns
        self._on_tick = on_tick
        self._lock = threading.Lock()
        self._waiting: dict[str, PodState] = {}  # refused; nothing became free since
        self._due: dict[str, PodState] = {}
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retry", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)

    def refused(self, pod: PodState) -> None:
        """Remember a pod that no node has room for. Hold the view's lock: no room is missed."""
        with self._lock:
            self._due.pop(pod.uid, None)
            self._waiting[pod.uid] = pod
            if len(self._waiting) > _MOST_WAITING:
                del self._waiting[next(iter(self._waiting))]

    def settled(self, uid: str) -> None:
        """Forget a pod: it was placed, or is gone."""
        with self._lock:
            self._due.pop(uid, None)
            self._waiting.pop(uid, None)

    def room(self) -> None:
        """Wake the pods refused until now."""
        with self._lock:
            if not self._waiting:
                return
            self._due.update(self._waiting)
            self._waiting.clear()
        self._wake.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(_TICK_SECONDS)
            self._wake.clear()
            self._on_tick()
            while (pod := self._next()) is not None:
                self._writer.write_retry(pod.namespace, pod.name, pod.uid, self._now_ns())
                if self._stop.wait(1 / _PER_SECOND):
                    return

    def _next(self) -> PodState | None:
        with self._lock:
            if not self._due:
                return None
            return self._due.pop(next(iter(self._due)))
