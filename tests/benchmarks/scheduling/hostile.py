"""What hostile nodes and pods cost the others: one hundredth of the nodes, a twentieth of the pods.

The extender runs in this process, so that its lock can be metered; the API server is another one
(`hostile_cluster`). One thread asks and binds as a scheduler does, one looks at the cluster as
Prometheus and a page do. The run fails where a promise doesn't hold.
"""

import dataclasses
import gc
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

from extender.api.scheduler_api import SchedulerApi
from extender.api.serializers import ClusterValues
from extender.cache.snapshot import advise
from extender.extender import Extender
from tests.benchmarks.scheduling import hostile_cluster
from tests.benchmarks.timing import Timing, summary
from tests.extender.cache.metered import Hold, MeteredLock
from tests.extender.mini_cluster import settings

NODES = 1000
SECONDS = 40.0
MOST_FILTER_SECONDS = 0.025
MOST_HELD_SECONDS = 0.020
MOST_BYTES = 512 << 20  # of the whole process, with the benchmark's own parts
_READY_SECONDS = 120.0
_DECISION_SECONDS = 30.0
_ASKS_PER_SECOND = 80
_LOOKS_EVERY_SECONDS = 5.0
_ORDERS = 5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one cluster showed.

    Attributes:
        filter: of pods that aren't hostile.
        bind: of the same.
        asked: how many of each.
        held: the hold of the cache's lock that took most.
        filled_bytes: resident memory before the first question.
        resident_bytes: at the end.
    """

    filter: Timing
    bind: Timing
    asked: tuple[int, int]
    held: Hold
    filled_bytes: int
    resident_bytes: int


def section(nodes: int = NODES, *, seconds: float = SECONDS) -> str:
    """Measure and return the section's text.

    Raises:
        AssertionError: other pods wait too long, are refused wrongly, or memory isn't bounded.
    """
    alone = _measured("honest", nodes, seconds)
    beside = _measured("hostile", nodes, seconds)
    assert beside.filter.p99 <= MOST_FILTER_SECONDS, beside
    assert beside.held.cpu_seconds <= MOST_HELD_SECONDS, beside
    assert beside.resident_bytes <= MOST_BYTES, beside
    return _text(alone, beside, nodes)


def _measured(kind: str, nodes: int, seconds: float) -> Found:
    """Measure in a process of its own, so that its memory is of this run alone."""
    module = "tests.benchmarks.scheduling.hostile"
    command = [sys.executable, "-m", module, kind, str(nodes), str(seconds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    told = json.loads(done.stdout.splitlines()[-1])
    return Found(
        **{
            **told,
            "filter": Timing(**told["filter"]),
            "bind": Timing(**told["bind"]),
            "asked": tuple(told["asked"]),
            "held": Hold(**told["held"]),
        }
    )


class _Api:
    """The path of the kubeconfig."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def write_kubeconfig(self, _path: pathlib.Path) -> pathlib.Path:
        return self._path


def measure(kind: str, nodes: int, seconds: float) -> Found:
    """Run a cluster of this kind (`honest`, `hostile`) and ask for so long."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpustack-hostile-"))
    module = hostile_cluster.__name__
    command = [sys.executable, "-m", module, str(folder), str(nodes), kind]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline().strip() == "ready"
        api: Any = _Api(folder / "kubeconfig")
        # The first bind lists the unbound pods, which the simulated API server takes seconds for.
        service = Extender(settings(api, folder, decision_seconds=_DECISION_SECONDS))
        lock = MeteredLock(traced=False)
        any_lock: Any = lock
        service.cache.lock = any_lock
        service.start()
        try:
            deadline = time.monotonic() + _READY_SECONDS
            while service.unready:
                assert time.monotonic() < deadline, service.unready
                time.sleep(0.1)
            gc.freeze()  # as extender.application does once it is ready
            server.stdin.write("begin\n")
            server.stdin.flush()
            return _Scheduler(service, lock, kind, nodes).run(seconds)
        finally:
            service.stop()
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder)


class _Scheduler:
    """Asks for pods, good and bad ones, and binds some."""

    def __init__(self, service: Extender, lock: MeteredLock, kind: str, nodes: int) -> None:
        self._service = service
        self._lock = lock
        self._calls = SchedulerApi(service)
        part = 0.01 if kind == "hostile" else 0.0
        self._names = [hostile_cluster.node_name(at, part) for at in range(nodes)]
        self._good = {name for name in self._names if name.startswith("gpu-")}
        pods = {pod.name: pod for pod in service.cache.pods}
        asked = [pods[f"asked-{name}"] for name in hostile_cluster.ASKED]
        bad = [pod for name, pod in pods.items() if name.startswith("bad-") and not pod.node]
        self._asked, self._bad = self._bodies(asked), self._bodies(bad[: len(asked)] or asked)
        self._bind = iter([pod for name, pod in pods.items() if name.startswith("bound-")])
        self._values = ClusterValues()
        self._stop = threading.Event()
        self._broken: list[BaseException] = []

    def _bodies(self, pods: list[Any]) -> Iterator[bytes]:
        while True:
            for turn in range(_ORDERS):
                at = turn * len(self._names) // _ORDERS
                names = json.dumps([*self._names[at:], *self._names[:at]])
                for pod in pods:
                    named = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
                    metadata = json.dumps({"metadata": named})
                    yield f'{{"Pod":{metadata},"NodeNames":{names}}}'.encode()

    def run(self, seconds: float) -> Found:
        """Ask until the time is over."""
        self._timed_bind(0)
        filled = _resident_bytes()
        self._lock.longest = Hold()
        looking = threading.Thread(target=self._look)
        looking.start()
        filters, binds = [], []
        try:
            end, turn = time.monotonic() + seconds, 0
            while time.monotonic() < end:
                turn += 1
                if turn % 20 == 0:
                    self._calls.answer("/scheduler/filter", next(self._bad))
                elif turn % 10 == 5:
                    binds.append(self._timed_bind(turn))
                else:
                    filters.append(self._timed_filter())
                time.sleep(1 / _ASKS_PER_SECOND)
        finally:
            self._stop.set()
            looking.join()
        assert not self._broken, self._broken
        return Found(
            filter=summary(filters),
            bind=summary(binds),
            asked=(len(filters), len(binds)),
            held=self._lock.longest,
            filled_bytes=filled,
            resident_bytes=_resident_bytes(),
        )

    def _timed_filter(self) -> float:
        body = next(self._asked)
        started = time.perf_counter()
        reply = self._calls.answer("/scheduler/filter", body)
        taken = time.perf_counter() - started
        said = json.loads(reply.body)
        assert not said["Error"], said["Error"]
        missing = self._good - set(said["NodeNames"])
        assert not missing, f"{len(missing)} nodes with room were refused, {min(missing)} first"
        return taken

    def _timed_bind(self, turn: int) -> float:
        pod = next(self._bind)
        good = sorted(self._good)
        named = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid}
        body = json.dumps({**named, "Node": good[turn % len(good)]}).encode()
        started = time.perf_counter()
        reply = self._calls.answer("/scheduler/bind", body)
        taken = time.perf_counter() - started
        assert json.loads(reply.body) == {"Error": ""}, reply.body
        return taken

    def _look(self) -> None:
        """Do what Prometheus and a page do, now and then."""
        service = self._service
        try:
            while not self._stop.wait(_LOOKS_EVERY_SECONDS):
                service.metrics.render("")
                picture = service.snapshotter.take()
                known = service.card_utilisation
                self._values.make(picture, {}, known, unready="", quota_problem="")
                advise(picture, next(pod for pod in picture.waiting if pod.request is not None))
        except BaseException as error:
            self._broken.append(error)


def _resident_bytes() -> int:
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def _text(alone: Found, beside: Found, nodes: int) -> str:
    lines = [
        f"## {nodes} nodes and {nodes * hostile_cluster.PODS_EACH} pods, some of them hostile",
        "",
        "1 % of the nodes and 5 % of the pods say what would end or stop a scheduler that believes"
        " them (`tests/extender/hostile.py`), ten of each change it every second, and one question"
        " in twenty is about such a pod. The extender runs beside a simulated API server; times"
        " are those of its verbs for the other pods, from the body to the answer, and every node"
        " with room is in it. Held: the longest CPU time for which a thread held the cache's"
        " lock. The run fails where filter's p99 passes"
        f" {MOST_FILTER_SECONDS * 1e3:.0f} ms, a hold {MOST_HELD_SECONDS * 1e3:.0f} ms, or the"
        f" process {MOST_BYTES >> 20} MiB.",
        "",
        "| cluster | filter, ms | bind, ms | asked, bound | held, ms | memory before, after, MB |",
        "|---|---|---|---|---|---|",
    ]
    for name, each in (("none hostile", alone), ("some hostile", beside)):
        lines.append(
            f"| {name} | {each.filter.text()} | {each.bind.text()} | {each.asked[0]},"
            f" {each.asked[1]} | {each.held.cpu_seconds * 1e3:.1f} |"
            f" {each.filled_bytes / 1e6:.0f}, {each.resident_bytes / 1e6:.0f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    measured = measure(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
    print(json.dumps(dataclasses.asdict(measured)))
