"""What the agent costs an idle node, and how soon many pods at once are admitted.

A process of its own, on the simulated driver, with real files, mounts and processes; kubelet,
runtime and API server are the fakes on sockets.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from tests.agent.host import CORE, KEYS, MEMORY, Host, Pod, container, make_pod
from tests.agent.mounts.namespace import alone
from tests.agent.other_client import other_client
from tests.benchmarks.agent.process_cost import resident_mib, seconds
from tests.benchmarks.timing import summary
from tests.simgpu_tests.machine import Machine, first_line

_T = TypeVar("_T")

_CARDS: Final = 8
_SHARES: Final = 90
_MAPPINGS: Final = 2500
_SETTLE_SECONDS: Final = 8.0
_SECONDS: Final = 30.0
_PODS: Final = 48
_MANY_CARDS: Final = 16
_LARGE_BYTES: Final = 192 << 30
_MANY_PODS: Final = 100
_HEALTH: Final = {"poll_seconds": 3}  # the default; tests ask thirty times as often
# Percent of a core of the same three, by this program with the agent of commit 0e2e7b3.
_BEFORE: Final = ("2.25 %", "18.50 %", "21.83 %")
_ROOT: Final = pathlib.Path(__file__).resolve().parents[3]
_CGROUP: Final = pathlib.Path("/sys/fs/cgroup")


def section() -> str:
    """Measure and return the page's part."""
    rows = []
    cases = (
        ("hard limits, no GPU process", False, False, "1 %"),
        ("elastic, no GPU process", True, False, "-"),
        (f"elastic, {_SHARES} processes of {_MAPPINGS} mappings", True, True, "3 %"),
    )
    for (name, elastic, busy, goal), before in zip(cases, _BEFORE, strict=True):
        percent, resident = _idle(elastic=elastic, with_processes=busy)
        rows.append(f"| {name} | {percent:.2f} % | {before} | {goal} | {resident:.0f} |")
    return "\n".join(
        [
            f"## An idle agent with {_SHARES} shares on {_CARDS} cards, percent of a core",
            "",
            "| shares | now | before | goal | RSS, MiB |",
            "|---|---|---|---|---|",
            *rows,
            "",
            f"User and system time of the agent's process over {_SECONDS:g} s by /proc/PID/stat;"
            " before: the same of the agent of commit 0e2e7b3, which asked its cards every 0.1 s"
            f" how they are; now it is every {_HEALTH['poll_seconds']} s, the default."
            " Simulated cards; the processes and their memory maps are real. Kubelet, runtime and"
            " API server are the tests' fakes, in another process. RSS is without the simulated"
            " driver's own state, of 16 MiB. Goal: 100. As on a host, each share's files lie on a"
            " tmpfs that gpustack-mount, another process, makes.",
            "",
            _admission(),
            _calls(),
        ]
    )


def _idle(*, elastic: bool, with_processes: bool) -> tuple[float, float]:
    """Return the agent's percent of a core and its resident MiB."""

    def measure(node: _Node) -> tuple[float, float]:
        with contextlib.ExitStack() as closing:
            pods = [node.share(number, elastic=elastic) for number in range(_SHARES)]
            agent = closing.enter_context(node.agent())
            for pod in pods:
                node.admit(pod)
            if with_processes:
                closing.enter_context(node.tenants(pods))
            time.sleep(_SETTLE_SECONDS)
            before = seconds(agent)
            time.sleep(_SECONDS)
            return 100 * (seconds(agent) - before) / _SECONDS, resident_mib(agent)

    return _on_a_node(measure)


def _admission() -> str:
    def measure(node: _Node) -> tuple[float, list[float]]:
        pods = [node.share(number, elastic=False) for number in range(_PODS)]
        with node.agent(), other_client(node.host.kubelet):
            began, took = time.perf_counter(), []
            for pod in pods:
                start = time.perf_counter()
                node.admit(pod)
                took.append(time.perf_counter() - start)
            return time.perf_counter() - began, took

    total, took = _on_a_node(measure)
    return "\n".join(
        [
            f"## {_PODS} pods at once on a node, with another PodResources client at 20 calls/s",
            "",
            "| all admitted and started, s | a pod, ms: median (p99) | goal for all |",
            "|---|---|---|",
            f"| {total:.2f} | {summary(took).text()} | 5 s |",
            "",
            "By the fake kubelet, whose own time is in it, under the kubelet's rate limit of 100"
            " calls a second and 10 at once.",
            "",
        ]
    )


def _calls() -> str:
    """Measure the kubelet's calls on a node with as many devices as there may be."""
    took: dict[str, list[float]] = {}
    began: dict[str, float] = {}

    def asked(resource: str, method: str) -> None:
        began[method] = time.perf_counter()

    def answered(method: str) -> None:
        took.setdefault(method, []).append(time.perf_counter() - began[method])

    def measure(node: _Node) -> None:
        # a plugin keeps the kubelet's hooks from its registration on
        node.host.kubelet.asked, node.host.kubelet.answered = asked, answered
        with node.agent():
            took.clear()
            for number in range(_MANY_PODS):
                node.admit(node.share(number, cores=14, units=109))

    _on_a_node(measure, _MANY_CARDS, _LARGE_BYTES)
    return "\n".join(
        [
            f"## The kubelet's calls on {_MANY_CARDS} cards of 192 GiB,"
            f" {_MANY_PODS} pods one after another, ms",
            "",
            "| call | median (p99) | goal for p99 |",
            "|---|---|---|",
            *(f"| {name} | {summary(took[name]).text()} | 20 |" for name in sorted(took)),
            "",
            "Each pod comes when the one before has started. By the fake kubelet, whose own time is"
            " in it: it writes and reads the devices' IDs,"
            f" {_MANY_CARDS * _LARGE_BYTES >> 28} of memory. As on a host, each share's files lie"
            " on a tmpfs that gpustack-mount makes.",
            "",
        ]
    )


class _Node:
    """A host on the simulated driver."""

    def __init__(self, host: Host, machine: Machine, cards: int) -> None:
        self.host = host
        self._machine = machine
        self._cards = cards
        (host.root / "linker_cache").write_text(host.files.linker_cache)

    def share(self, number: int, *, elastic: bool = False, cores: int = 8, units: int = 8) -> Pod:
        """Create a pod of one share; pods take the cards in turn."""
        minor = number % self._cards
        card = _uuid(minor)
        written = {
            KEYS.predicate_time: str(number + 1),
            KEYS.predicate_node: "gpu1",
            f"{KEYS.idx_prefix}0": str(minor),
            f"{KEYS.uuid_prefix}0": card,
            KEYS.gpu_assigned: "false",
        }
        if elastic:
            written[KEYS.core_limit] = "100"
        asked = container("c0", cores, units)
        pod = make_pod(f"p{number}", asked, annotations=written)
        pod["metadata"]["uid"] = str(uuid.UUID(int=number))  # gpustack-mount takes no other
        return self.host.create(pod)

    def admit(self, pod: Pod) -> None:
        """Let the kubelet admit and start a pod of one container."""
        kubelet = self.host.kubelet
        answer = kubelet.admit(pod)["c0"]
        kubelet.start_container(pod, "c0", CORE)
        self.host.cri.run(pod["metadata"]["uid"], "c0", annotations=dict(answer.annotations))

    @contextlib.contextmanager
    def agent(self) -> Iterator[int]:
        """Run the agent and gpustack-mount; give the agent's PID once it has registered."""
        root, state = self.host.root, self.host.state
        self.host.mount_socket = str(root / "mount.sock")
        self.host.settings()
        mount = ("gpustack.agent.mounts.main", "--state", state, "--socket", root / "mount.sock")
        with self._program(*mount), self._program("tests.benchmarks.agent.process", root) as agent:
            first_line(agent)
            self.host.kubelet.wait_for_plugins(CORE, MEMORY)
            yield agent.pid

    @contextlib.contextmanager
    def _program(self, *command: object) -> "Iterator[subprocess.Popen[str]]":
        source = os.environ.get("AGENT_SOURCE", "")  # of another version, to compare with
        path = os.pathsep.join(filter(None, (source, str(_ROOT))))
        with subprocess.Popen(
            [sys.executable, "-m", *map(str, command)], cwd=self.host.root, text=True,
            env=self._machine.env | {"PYTHONPATH": path},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.terminate()

    @contextlib.contextmanager
    def tenants(self, pods: Sequence[Pod]) -> Iterator[None]:
        """Run a process on a card in each of these pods' containers."""
        folders = [str(self.host.folder(pod, "c0")) for pod in pods]
        hook = str(self.host.files.hook)
        command = [sys.executable, "-m", "tests.benchmarks.agent.tenants", str(_MAPPINGS), hook]
        groups = []
        with subprocess.Popen(
            [*command, *folders], env=self._machine.env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as process:  # fmt: skip
            try:
                for pid, each in zip(first_line(process).split(), self._containers(), strict=True):
                    groups.append(_join(each, pid))
                yield
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait()
                for group in groups:
                    group.rmdir()

    def _containers(self) -> list[str]:
        return [f"{number + 1:064x}" for number in range(_SHARES)]


def _on_a_node(
    measure: Callable[[_Node], _T], count: int = _CARDS, memory_bytes: int = 80 << 30
) -> _T:
    """Measure with the mounts of the node's programs, which end with them."""
    with _node(count, memory_bytes) as node:
        return alone(lambda: measure(node))


@contextlib.contextmanager
def _node(count: int, memory_bytes: int) -> Iterator[_Node]:
    root = pathlib.Path(tempfile.mkdtemp(prefix="gs"))
    try:
        machine = Machine(folder=root)
        cards = [
            {"minor": minor, "uuid": _uuid(minor), "memory": memory_bytes} for minor in range(count)
        ]
        machine.describe({"cards": cards})
        with Host(root) as host:
            for minor in range(count):
                (root / "dev" / f"nvidia{minor}").touch()
            machine.start(*range(count))
            host.configuration["health"] = _HEALTH
            yield _Node(host, machine, count)
    finally:
        shutil.rmtree(root)


def _uuid(minor: int) -> str:
    return f"GPU-00000000-0000-0000-0001-{minor:012d}"


def _join(container_id: str, pid: str) -> pathlib.Path:
    """Move a process into a container's cgroup; needs root."""
    folder = next(
        (_CGROUP / name for name in ("pids", "unified") if (_CGROUP / name).is_dir()), _CGROUP
    )
    group = folder / f"cri-{container_id}.scope"
    group.mkdir(exist_ok=True)
    (group / "cgroup.procs").write_text(pid)
    return group
