"""Schedulers and users that never stop: pods come, are decided in both ways, and end."""

import collections
import contextlib
import http.client
import itertools
import json
import threading
import time
from types import TracebackType
from typing import Any

from gpustack.adapters.kube import KubeClient, KubeError, KubeUnavailable
from tests.control_plane import extending, fleet
from tests.extender.stateful.truth import CORES, UNITS, bound, cards, finished, pending

PODS = "/api/v1/namespaces/default/pods"
NODES = [fleet.name_of(at) for at in range(2)]
_ASKS = [(30, 64), (60, 128), (100, 1), (70, 100), (200, 1)]
_WORKERS = 4
_RUNNING = 5  # pods of one worker that run at the same time: together more than there is room for
_PAUSE_SECONDS = 0.02
_CALL_SECONDS = 10.0


class Load:
    """Asks one extender as long as the block runs, and finishes then what it began.

    Attributes:
        done: when each pod was bound, and when it was first asked about (monotonic seconds).
        bound: UIDs of the pods whose binding was said to have succeeded, and their node.
        problems: what must not happen.
    """

    def __init__(self, client: KubeClient, port: int, name: str) -> None:
        self.done: list[tuple[float, float]] = []
        self.bound: dict[str, str] = {}
        self.problems: list[str] = []
        self._client = client
        self._port = port
        self._name = name
        self._numbers = itertools.count()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(at,), daemon=True) for at in range(_WORKERS)
        ]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a pod was never decided"

    def wait_for_one_asked_after(self, moment: float, *, within_seconds: float) -> float:
        """Wait for a pod that was asked about since, and is bound; returns how long it took."""
        while not any(asked >= moment for _, asked in list(self.done)):
            since = time.monotonic() - moment
            assert since < within_seconds, f"no pod was bound within {within_seconds:g} s"
            time.sleep(_PAUSE_SECONDS)
        return min(done for done, asked in list(self.done) if asked >= moment) - moment

    def _work(self, worker: int) -> None:
        running: collections.deque[dict[str, Any]] = collections.deque()
        for number in itertools.count():
            if self._stop.is_set():
                break
            if len(running) >= _RUNNING:
                self._end(running.popleft())
            cores, units = _ASKS[(number + worker) % len(_ASKS)]
            name = f"{self._name}-{next(self._numbers)}"
            created = self._insist(
                lambda name=name, cores=cores, units=units: self._client.post(
                    PODS, fleet.waiting_pod(name, cores, units)
                ),
                PODS + "/" + name,
            )
            if not self._place(created, running, by_itself=number % 2 == 0):
                self._end(created)
            else:
                running.append(created)
        for pod in running:
            self._end(pod)

    def _place(
        self, pod: dict[str, Any], running: "collections.deque[dict[str, Any]]", *, by_itself: bool
    ) -> bool:
        """Ask until the pod is bound; room is made where there is none."""
        while True:
            asked = time.monotonic()
            try:
                done = self._predicates(pod) if by_itself else self._bind(pod)
            except (OSError, http.client.HTTPException):
                done = None  # nobody answers, or not any more
            except (KubeError, KubeUnavailable):
                done = None
            if done:
                self.done.append((time.monotonic(), asked))
                return True
            if done is False and running:
                self._end(running.popleft())
            if done is None and self._is_bound(pod):
                return True
            if self._stop.is_set() and done is not None:
                return False
            time.sleep(_PAUSE_SECONDS)

    def _predicates(self, pod: dict[str, Any]) -> bool | None:
        """Ask for a node, and bind as the seeds' scheduler does; None for an error."""
        names = self._filter("predicates", pod)
        if not names:
            return None if names is None else False
        metadata = pod["metadata"]
        binding = {
            "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
            "target": {"kind": "Node", "name": names[0]},
        }
        self._client.post(f"{PODS}/{metadata['name']}/binding", binding)
        self.bound[metadata["uid"]] = names[0]
        return True

    def _bind(self, pod: dict[str, Any]) -> bool | None:
        names = self._filter("filter", pod)
        if not names:
            return None if names is None else False
        metadata = pod["metadata"]
        body = {
            "PodName": metadata["name"],
            "PodNamespace": metadata["namespace"],
            "PodUID": metadata["uid"],
            "Node": names[0],
        }
        if self._call("bind", body)["Error"]:
            return None
        self.bound[metadata["uid"]] = names[0]
        return True

    def _filter(self, verb: str, pod: dict[str, Any]) -> list[str] | None:
        answer = self._call(verb, {"Pod": pod, "NodeNames": NODES})
        found: list[str] | None = None if answer["Error"] else answer["NodeNames"] or []
        return found

    def _call(self, verb: str, body: object) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_CALL_SECONDS)
        with contextlib.closing(connection):
            return extending.call(connection, f"/scheduler/{verb}", json.dumps(body).encode())

    def _is_bound(self, pod: dict[str, Any]) -> bool:
        """Whether it was bound after all: the answer was lost."""
        with contextlib.suppress(KubeError, KubeUnavailable):
            return bool(bound(self._client.get(f"{PODS}/{pod['metadata']['name']}")))
        return False

    def _end(self, pod: dict[str, Any]) -> None:
        path = f"{PODS}/{pod['metadata']['name']}/status"
        body = {"status": {"phase": "Succeeded"}}
        self._insist(lambda: self._client.patch(path, body), path)

    def _insist(self, call: Any, path: str) -> dict[str, Any]:
        """Make an administrator's call until it is carried out."""
        while True:
            try:
                found: dict[str, Any] = call()
            except KubeUnavailable:
                time.sleep(_PAUSE_SECONDS)
            except KubeError as error:
                if error.reason == "AlreadyExists":  # by the call whose answer was lost
                    return self._insist(lambda: self._client.get(path), path)
                if not error.retryable and not error.conflict:
                    self.problems.append(str(error))
                    raise
                time.sleep(_PAUSE_SECONDS)
            else:
                return found


def judge(client: KubeClient) -> None:
    """Add up what the API server's pods hold, card by card, and what was said to be bound."""
    total: collections.Counter[tuple[tuple[str, int], int]] = collections.Counter()
    for pod in client.get(PODS)["items"]:
        if finished(pod):
            continue
        held = cards(pod)
        assert held or pending(pod), f"bound without cards: {pod['metadata']}"
        for card, use in held.items():
            for which in (0, 1):
                total[card, which] += use[which]
    over = {card: sum_ for card, sum_ in total.items() if sum_ > (CORES, UNITS)[card[1]]}
    assert not over, f"given twice: {over}"


def nothing_is_lost(client: KubeClient, load: Load) -> None:
    """What was said to be bound is bound there, with cards."""
    assert not load.problems
    pods = {pod["metadata"]["uid"]: pod for pod in client.get(PODS)["items"]}
    for uid, node in load.bound.items():
        assert bound(pods[uid]) == node
        assert cards(pods[uid]), pods[uid]["metadata"]
