"""Pods that were refused are looked at again as soon as there is room for them.

The scheduler tries a refused pod again when it sees something change, and may see it before our
cache does; it is refused again then, and lets the pod wait for minutes. So when our cache shows
room for a refused pod, the pod is activated: it gets the annotation `gpu-retry`, at which the
scheduler tries it again.

One card that becomes free activates one pod, not all that it fits; if the card is still free two
seconds later, the next pod is activated.

Whether there is room is a search, made on copies without the cache's lock. Pods of thousands of
kinds would keep it busy for ever: a look takes some kinds after others, and then a longer pause.
Namespaces have turns and times of their own in it, so that one's many kinds delay no other's pods.
"""

import collections
import functools
import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from extender.apiserver.writer import PodWriter
from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.node_results import NodeResults
from extender.cache.pods import PodState
from extender.cache.portions import portions
from extender.cache.search_time import SearchTime
from extender.requeue.simulation import RoomSimulation
from extender.requeue.unschedulable_pods import (
    Queue,
    UnschedulablePod,
    UnschedulablePods,
    in_turn,
)
from gpustack.adapters import kube

logger = logging.getLogger(__name__)

_PER_SECOND: Final = 20  # writes; bounds what a queue of thousands of waiting pods may cost
_WRITE_SECONDS: Final = 5.0  # no request waits for gpu-retry
_TICK_SECONDS: Final = 1.0  # how late a reservation's end by age may be noticed
_BETWEEN_SECONDS: Final = 0.1  # two looks at the waiting pods
_TAKING_SECONDS: Final = 2.0  # in which an activated pod is expected to take its room
_ROUND: Final = 40  # pods activated at a time
_KINDS: Final = 64  # of pods that are looked at in one look: each may be asked of every node
_SEARCH_SECONDS: Final = 1.0  # in which nodes are searched in one look
_LEAST_SECONDS: Final = 0.02  # of it for a namespace
_PAUSE: Final = 4.0  # times what a look took: a fifth of a processor at most

_Head = tuple[int, float, str, PodState, Queue, Iterator[UnschedulablePod]]
"""A pod with its place among the heads of all queues, and the rest of its own."""


class Requeue:
    """The refused pods, and a thread that activates them."""

    def __init__(
        self,
        *,
        writer: PodWriter,
        cache: ClusterCache,
        evaluator: NodeEvaluator,
        on_tick: Callable[[], None] = lambda: None,
        refuses_all: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Compose; from ``start`` on, ``on_tick`` is called every second.

        While ``refuses_all``, no pod is activated: each would be refused again.
        """
        self._writer = writer
        self._cache = cache
        self._evaluator = evaluator
        self._on_tick = on_tick
        self._refuses_all = refuses_all
        self._clock = clock
        self._waiting = UnschedulablePods(clock)  # guarded by the cache's lock
        self._woken = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retry", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)

    def refused(self, pod: PodState, results: NodeResults, time: SearchTime | None = None) -> None:
        """Remember a pod that no node had room for, as far as they were searched.

        Don't hold the cache's lock. Room that has come since is looked at, and the nodes that there
        was no time for are searched, so none is missed.
        """
        with self._cache.lock:
            activated = self._waiting.was_activated(pod.uid)
        in_vain = activated and self._evaluator.of(pod, tuple(self._cache.node_names), time).fits
        with self._cache.lock:
            self._waiting.add(pod, in_vain=in_vain)
            if results.unsearched or self._cache.rooms != results.rooms:
                self._woken.set()

    def settled(self, uid: str) -> None:
        """Forget a pod that was placed. Hold the cache's lock."""
        self._waiting.drop(uid, took_room=True)

    def inherit(self, pods: Iterable[PodState]) -> None:
        """Take over pods that wait since before this process began."""
        for some in portions(pod for pod in pods if pod.unschedulable and pod.placeable):
            with self._cache.lock:
                for pod in some:
                    self._waiting.add(pod, in_vain=False)
        self._woken.set()

    def wake(self) -> None:
        """Look at the waiting pods soon: cards may have become free."""
        self._woken.set()

    def activate(self, pod: PodState) -> None:
        """Activate a pod, and learn its present state: another instance may have bound it."""
        try:
            after = self._writer.touch(pod, timeout_seconds=_WRITE_SECONDS)
        except kube.KubeError as error:
            logger.debug("no retry written pod=%s error=%s", pod.full_name, error)
        except kube.KubeUnavailable as error:
            logger.warning("no retry written pod=%s error=%s", pod.full_name, error)
        else:
            self._cache.add_pod(after)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._woken.wait(_TICK_SECONDS)
            self._woken.clear()
            pause = _BETWEEN_SECONDS
            try:
                self._on_tick()
                began = self._clock()
                due = self._look()
                pause = max(pause, _PAUSE * (self._clock() - began))
                for pod in due:
                    self.activate(pod)
                    if self._stop.wait(1 / _PER_SECOND):
                        return
            except Exception:
                # The thread goes on: without it no pod would ever be activated again.
                logger.exception("waiting pods could not be looked at")
            self._stop.wait(pause)

    def _look(self) -> list[PodState]:
        """Return the pods to activate now, and note that they are."""
        self._cache.expire()
        with self._cache.lock:
            if not len(self._waiting) or self._refuses_all():
                return []
            activated = self._waiting.activated_after(self._clock() - _TAKING_SECONDS)
            self._waiting.looks += 1
            queues, rooms = self._waiting.queues, self._cache.rooms
        namespaces = len({queue.namespace for queue in queues})
        seconds = max(_LEAST_SECONDS, _SEARCH_SECONDS / max(1, namespaces))
        times: collections.defaultdict[str, SearchTime] = collections.defaultdict(
            functools.partial(SearchTime, seconds, self._clock)
        )
        simulation = RoomSimulation(self._cache, self._evaluator, times.__getitem__)
        for pod in filter(None, map(self._still, activated)):
            simulation.let_in(pod)
        candidates = self._candidates(simulation, in_turn(queues), rooms)
        due = list(itertools.islice(filter(simulation.let_in, candidates), _ROUND))
        if any(time.ran_out for time in times.values()):
            self._woken.set()
        with self._cache.lock:
            for pod in due:
                self._waiting.activated(pod.uid)
        return due

    def _candidates(
        self, simulation: RoomSimulation, queues: Sequence[Queue], rooms: int
    ) -> Iterator[PodState]:
        """Yield the pods that may fit: of those in turn, highest priority first, then the oldest.

        Queues are merged as they are asked for: of most of them only the first pod is looked at,
        and none that there is no room for. After so many kinds of pods the rest come with the next
        look.
        """
        most = simulation.opened + _KINDS
        for at in range(0, len(queues), _KINDS):
            heads = self._heads(queues[at : at + _KINDS], rooms)
            while heads:
                _, _, _, pod, queue, entries = heapq.heappop(heads)
                if simulation.hopeful(pod):
                    yield pod
                    self._push(heads, queue, entries)
                elif not simulation.knows(pod):
                    queue.rooms = -1
            if simulation.opened >= most:
                break
        if any(queue.rooms != rooms for queue in queues):
            self._woken.set()

    def _heads(self, queues: Iterable[Queue], rooms: int) -> list[_Head]:
        """Return the first pod of each queue, which is looked at now."""
        heads: list[_Head] = []
        with self._cache.lock:
            entries = [self._waiting.ready(queue) for queue in queues]
        for queue, ready in zip(queues, entries, strict=True):
            queue.looked, queue.rooms = self._waiting.looks, rooms
            self._push(heads, queue, ready)  # thousands in a row may be gone, or not ready
        return heads

    def _push(self, heads: list[_Head], queue: Queue, entries: Iterator[UnschedulablePod]) -> None:
        """Put the next pod of a queue that still waits among those of the others."""
        for entry in entries:
            pod = self._still(entry.uid)
            if pod is None:
                continue
            with self._cache.lock:
                moved = self._waiting.moved(pod)  # its user changed what it accepts
                place = self._waiting.place(entry)
            if moved:
                self._woken.set()  # so it comes with the next look
                continue
            heapq.heappush(heads, (-pod.priority, place, pod.uid, pod, queue, entries))
            return

    def _still(self, uid: str) -> PodState | None:
        """Return a pod that waits still and has no cards; forget one that doesn't wait."""
        with self._cache.lock:
            pod = self._cache.pod(uid)
            if pod is None or not pod.placeable:
                self._waiting.drop(uid, took_room=pod is not None and bool(pod.node))
                return None
            # One that was refused may have old cards, which end.
            return pod if self._cache.placement(uid) is None else None
