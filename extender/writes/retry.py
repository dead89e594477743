"""Pods that were refused are looked at again as soon as there is room for them.

The scheduler wakes a refused pod when it sees something change, and may well see it before we do;
it then asks, hears no, and would let the pod wait for minutes. So when *our* view shows room for a
pod that was refused, it gets the annotation `gpu-retry`, which makes the scheduler look at it.

One card that became free wakes one pod, not all that it fits; if nobody has taken it two seconds
later, the next one is woken.
"""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from extender.state.answers import Answers
from extender.state.pods import PodState
from extender.state.room import Room
from extender.state.view import ClusterView
from extender.writes.waiting import Waiting, WaitingPods
from extender.writes.writer import PodWriter

logger = logging.getLogger(__name__)

_PER_SECOND: Final = 20  # writes; bounds what a queue of thousands of waiting pods may cost
_TICK_SECONDS: Final = 1.0  # how late a reservation's end by age may be noticed
_BETWEEN_SECONDS: Final = 0.1  # two looks at the waiting pods
_TAKING_SECONDS: Final = 2.0  # in which a pod that was told is expected to take its room
_ROUND: Final = 40  # pods told at a time


class Retry:
    """The refused pods, and a thread that wakes them."""

    def __init__(
        self,
        *,
        writer: PodWriter,
        view: ClusterView,
        answers: Answers,
        on_tick: Callable[[], None] = lambda: None,
        refuses_all: Callable[[], bool] = lambda: False,
        now_ns: Callable[[], int] = time.time_ns,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Compose; nothing runs until ``start``, from when ``on_tick`` is called every second.

        While ``refuses_all``, nobody is woken: they would be told in vain, perhaps by another
        instance, before those that it has room for.
        """
        self._writer = writer
        self._view = view
        self._answers = answers
        self._on_tick = on_tick
        self._refuses_all = refuses_all
        self._now_ns = now_ns
        self._clock = clock
        self._waiting = WaitingPods(clock)  # guarded by the view's lock
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

    @property
    def waiting(self) -> int:
        """How many pods were refused and wait."""
        return len(self._waiting)

    def refused(self, pod: PodState) -> None:
        """Remember a pod that no node has room for. Hold the view's lock: no room is missed."""
        in_vain = self._waiting.was_told(pod.uid) and self._has_room(pod)
        self._waiting.add(pod, in_vain=in_vain)

    def settled(self, uid: str) -> None:
        """Forget a pod that was placed. Hold the view's lock."""
        self._waiting.drop(uid)

    def inherit(self, pods: Iterable[PodState]) -> None:
        """Take over pods that wait since before this process began."""
        with self._view.lock:
            for pod in pods:
                if pod.unschedulable and self._waits(pod):
                    self._waiting.add(pod, in_vain=False)
            self._wake.set()

    def room(self) -> None:
        """Look at the waiting pods soon: cards may have become free."""
        self._wake.set()

    def tell(self, pod: PodState) -> None:
        """Wake a pod, and learn what it is like by then: another instance may have bound it."""
        after = self._writer.write_retry(pod, self._now_ns())
        if after is not None:
            self._view.learn_pods([after])

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(_TICK_SECONDS)
            self._wake.clear()
            try:
                self._on_tick()
                for pod in self._look():
                    self.tell(pod)
                    if self._stop.wait(1 / _PER_SECOND):
                        return
            except Exception:
                # Last line of this thread: without it no pod would ever be woken again.
                logger.exception("waiting pods could not be looked at")
            self._stop.wait(_BETWEEN_SECONDS)

    def _look(self) -> list[PodState]:
        """Return the pods to wake now, and note that they are."""
        with self._view.lock:
            self._view.expire()
            if not len(self._waiting) or self._refuses_all():
                return []
            with Room(self._view, self._answers) as room:
                for uid in self._waiting.told_after(self._clock() - _TAKING_SECONDS):
                    pod = self._still(uid)
                    if pod is not None and self._wants(pod):
                        room.let_in(pod)
                fitting = (pod for pod in self._candidates(room) if room.let_in(pod))
                due = list(itertools.islice(fitting, _ROUND))
            for pod in due:
                self._waiting.told(pod.uid)
            return due

    def _candidates(self, room: Room) -> Iterator[PodState]:
        """Yield who may fit: highest priority first, then longest waiting.

        The queues are merged as they are asked for: of most of them only the first pod is looked
        at, and none that there is no room for.
        """
        heads: list[tuple[int, float, str, PodState, Iterator[Waiting]]] = []

        def push(entries: Iterator[Waiting]) -> None:
            for entry in entries:
                pod = self._still(entry.uid)
                if pod is None or not self._wants(pod):
                    continue
                if self._waiting.moved(pod):  # its user changed what it accepts
                    self._wake.set()  # so it comes with the next look
                    continue
                heapq.heappush(heads, (-pod.priority, entry.since, pod.uid, pod, entries))
                return

        for kind in self._waiting.kinds:
            push(self._waiting.ready(kind))
        while heads:
            _, _, _, pod, entries = heapq.heappop(heads)
            if room.hopeful(pod):
                yield pod
                push(entries)

    def _still(self, uid: str) -> PodState | None:
        """Return a pod if it waits still; otherwise forget it."""
        pod = self._view.pod(uid)
        if pod is not None and self._waits(pod):
            return pod
        self._waiting.drop(uid)
        return None

    @staticmethod
    def _waits(pod: PodState) -> bool:
        return pod.request is not None and pod.placeable

    def _wants(self, pod: PodState) -> bool:
        """Say whether it has no cards; one that was refused may have old ones, which end."""
        return self._view.placement(pod.uid) is None

    def _has_room(self, pod: PodState) -> bool:
        return self._answers.of(pod, tuple(self._view.node_names)).fits
