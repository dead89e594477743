"""Pods that were refused are looked at again as soon as there is room for them.

The scheduler wakes a refused pod when it sees something change, and may well see it before we do;
it then asks, hears no, and would let the pod wait for minutes. So when *our* view shows room for a
pod that was refused, it gets the annotation `gpu-retry`, which makes the scheduler look at it.

One card that became free wakes one pod, not all that it fits; if nobody has taken it two seconds
later, the next one is woken.

Whether there is room is a search, made on copies without the view's lock. Pods of thousands of
kinds would keep it busy for ever: a look takes some kinds after others, and then a longer pause.
"""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from extender.apiserver.writer import PodWriter
from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.pods import PodState
from extender.cache.portions import portions
from extender.requeue.simulation import Kind, RoomSimulation
from extender.requeue.unschedulable_pods import UnschedulablePod, UnschedulablePods

logger = logging.getLogger(__name__)

_PER_SECOND: Final = 20  # writes; bounds what a queue of thousands of waiting pods may cost
_TICK_SECONDS: Final = 1.0  # how late a reservation's end by age may be noticed
_BETWEEN_SECONDS: Final = 0.1  # two looks at the waiting pods
_TAKING_SECONDS: Final = 2.0  # in which a pod that was told is expected to take its room
_ROUND: Final = 40  # pods told at a time
_KINDS: Final = 64  # of pods that are looked at in one look: each may be asked of every node
_PAUSE: Final = 4.0  # times what a look took: a fifth of a processor at most

_Head = tuple[int, float, str, PodState, Kind, Iterator[UnschedulablePod]]
"""A pod with its place among the heads of all queues, and the rest of its own."""


class Requeue:
    """The refused pods, and a thread that wakes them."""

    def __init__(
        self,
        *,
        writer: PodWriter,
        view: ClusterCache,
        answers: NodeEvaluator,
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
        self._waiting = UnschedulablePods(clock)  # guarded by the view's lock
        self._looked_at: set[Kind] = set()  # without room, since the round over all kinds began
        self._rooms = 0  # the view's, when that round began
        self._round = 0  # how many kinds waited then
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

    def refused(self, pod: PodState, rooms: int) -> None:
        """Remember a pod that no node had room for, when there had been ``rooms`` (of the view).

        Don't hold the view's lock. Room that has come since is looked at, so none is missed.
        """
        with self._view.lock:
            told = self._waiting.was_told(pod.uid)
        in_vain = told and self._has_room(pod)
        with self._view.lock:
            self._waiting.add(pod, in_vain=in_vain)
            if self._view.rooms != rooms:
                self._wake.set()

    def settled(self, uid: str) -> None:
        """Forget a pod that was placed. Hold the view's lock."""
        self._waiting.drop(uid)

    def inherit(self, pods: Iterable[PodState]) -> None:
        """Take over pods that wait since before this process began."""
        for some in portions(pod for pod in pods if pod.unschedulable and self._waits(pod)):
            with self._view.lock:
                for pod in some:
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
            pause = _BETWEEN_SECONDS
            try:
                self._on_tick()
                began = self._clock()
                due = self._look()
                pause = max(pause, _PAUSE * (self._clock() - began))
                for pod in due:
                    self.tell(pod)
                    if self._stop.wait(1 / _PER_SECOND):
                        return
            except Exception:
                # Last line of this thread: without it no pod would ever be woken again.
                logger.exception("waiting pods could not be looked at")
            self._stop.wait(pause)

    def _look(self) -> list[PodState]:
        """Return the pods to wake now, and note that they are."""
        self._view.expire()
        with self._view.lock:
            if not len(self._waiting) or self._refuses_all():
                return []
            told = self._waiting.told_after(self._clock() - _TAKING_SECONDS)
        room = RoomSimulation(self._view, self._answers)
        for uid in told:
            pod = self._still(uid)
            if pod is not None and self._wants(pod):
                room.let_in(pod)
        fitting = (pod for pod in self._candidates(room) if room.let_in(pod))
        due = list(itertools.islice(fitting, _ROUND))
        with self._view.lock:
            for pod in due:
                self._waiting.told(pod.uid)
        return due

    def _candidates(self, room: RoomSimulation) -> Iterator[PodState]:
        """Yield who may fit: highest priority first, then longest waiting.

        The queues are merged as they are asked for: of most of them only the first pod is looked
        at, and none that there is no room for. After so many kinds of pods the rest come with the
        next look.
        """
        heads = self._heads()
        most = room.opened + _KINDS
        while heads:
            _, _, _, pod, kind, entries = heapq.heappop(heads)
            if room.hopeful(pod):
                yield pod
                self._push(heads, kind, entries)
            else:
                self._looked_at.add(kind)
            if room.opened >= most and heads:
                self._wake.set()
                return
        self._looked_at.clear()
        if self._view.rooms != self._rooms:
            self._wake.set()  # who was looked at first may fit by now

    def _heads(self) -> list[_Head]:
        """Return the first pod of each queue that this round hasn't come to."""
        with self._view.lock:
            kinds = self._waiting.kinds
            if len(self._looked_at) >= self._round:
                self._looked_at.clear()  # new kinds have come meanwhile: a round would never end
            if not self._looked_at:
                self._rooms, self._round = self._view.rooms, len(kinds)
        heads: list[_Head] = []
        for some in portions(kind for kind in kinds if kind not in self._looked_at):
            with self._view.lock:
                queues = [(kind, self._waiting.ready(kind)) for kind in some]
            for kind, entries in queues:  # thousands in a row may be gone, or not ready
                self._push(heads, kind, entries)
        return heads

    def _push(self, heads: list[_Head], kind: Kind, entries: Iterator[UnschedulablePod]) -> None:
        """Put the next pod of a queue among the others' that still wants to be told."""
        for entry in entries:
            pod = self._still(entry.uid)
            if pod is None or not self._wants(pod):
                continue
            with self._view.lock:
                moved = self._waiting.moved(pod)  # its user changed what it accepts
            if moved:
                self._wake.set()  # so it comes with the next look
                continue
            heapq.heappush(heads, (-pod.priority, entry.since, pod.uid, pod, kind, entries))
            return

    def _still(self, uid: str) -> PodState | None:
        """Return a pod if it waits still; otherwise forget it."""
        with self._view.lock:
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
