"""Schedulers and users that never stop: pods come, are decided in both ways, and end."""

import collections
import contextlib
import dataclasses
import datetime
import http.client
import itertools
import json
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

from gpustack.adapters.kube import KubeClient, KubeError, KubeUnavailable
from gpustack.model.units import CORES_PER_CARD, MEMORY_UNIT_BYTES
from tests.control_plane import extending, fleet
from tests.extender.stateful.pods import bound, cards, finished, pending

PODS = "/api/v1/namespaces/default/pods"
NODES = [fleet.name_of(at) for at in range(2)]
_CARD = (CORES_PER_CARD, fleet.MEMORY_BYTES // MEMORY_UNIT_BYTES)
_ASKS = [(30, 64), (60, 128), (100, 1), (70, 100), (200, 1)]
_WORKERS = 4
_RUNNING = 5  # pods of one worker that run at the same time: together more than there is room for
_PAUSE_SECONDS = 0.02
_CALL_SECONDS = 10.0
RECOVERY_SECONDS = 5.0

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A pod that was bound.

    Attributes:
        uid: the pod's.
        asked: when the question was put that led to it (monotonic seconds).
        at: when its binding was said to have succeeded.
    """

    uid: str
    asked: float
    at: float


class Load:
    """Asks one extender from ``start`` on, and finishes with ``finish`` what it began.

    Attributes:
        done: the pods that were bound, in order.
        bound: UIDs of the pods whose binding was said to have succeeded, and their node.
        problems: what must not happen.
    """

    def __init__(self, client: KubeClient, port: int, name: str) -> None:
        self.done: list[Done] = []
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

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Begin nothing any more, and wait until every pod was decided."""
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a pod was never decided"

    def recovers(self, since: float | None = None) -> float:
        """Wait until a pod is bound that was asked about since a moment, or from now on.

        Returns:
            The seconds that it took.

        Raises:
            AssertionError: it took longer than a recovery may.
        """
        moment = time.monotonic() if since is None else since
        while not any(each.asked >= moment for each in list(self.done)):
            waited = time.monotonic() - moment
            assert waited < RECOVERY_SECONDS, f"no pod was bound within {RECOVERY_SECONDS:g} s"
            time.sleep(_PAUSE_SECONDS)
        took = min(each.at for each in list(self.done) if each.asked >= moment) - moment
        logger.info("recovered load=%s seconds=%.3f", self._name, took)
        return took

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
                done = None  # the extender does not answer, or not any more
            except (KubeError, KubeUnavailable):
                done = None
            if done:
                uid = pod["metadata"]["uid"]
                self.done.append(Done(uid=uid, asked=asked, at=time.monotonic()))
                return True
            if done is False:
                self._report_unschedulable(pod)
                if running:
                    self._end(running.popleft())
            if done is None and self._is_bound(pod):
                return True
            if self._stop.is_set() and done is not None:
                return False
            time.sleep(_PAUSE_SECONDS)

    def _predicates(self, pod: dict[str, Any]) -> bool | None:
        """Ask for a node, and bind as a scheduler with a Policy does; None for an error."""
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
        self._set_status(pod, {"phase": "Succeeded"})

    def _report_unschedulable(self, pod: dict[str, Any]) -> None:
        """Say on the pod, as the scheduler does, that no node fits."""
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": f"0/{len(NODES)} nodes are available",
            "lastTransitionTime": now,
        }
        self._set_status(pod, {"conditions": [condition]})

    def _set_status(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        path = f"{PODS}/{pod['metadata']['name']}/status"
        self._insist(lambda: self._client.patch(path, {"status": status}), path)

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


@contextlib.contextmanager
def running(client: KubeClient, port: int, name: str) -> Iterator[Load]:
    """Put an extender under load as long as the block runs, and judge then what became of it.

    Args:
        client: an administrator's.
        port: the extender's.
        name: what the names of its pods begin with.
    """
    pods = Load(client, port, name)
    pods.start()
    try:
        pods.recovers()
        yield pods
    finally:
        pods.finish()
    judge(client)
    nothing_is_lost(client, pods)


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
    over = {card: sum_ for card, sum_ in total.items() if sum_ > _CARD[card[1]]}
    assert not over, f"given twice: {over}"


def nothing_is_lost(client: KubeClient, load: Load) -> None:
    """What was said to be bound is bound there, with cards."""
    assert not load.problems
    pods = {pod["metadata"]["uid"]: pod for pod in client.get(PODS)["items"]}
    for uid, node in load.bound.items():
        assert bound(pods[uid]) == node
        assert cards(pods[uid]), pods[uid]["metadata"]
