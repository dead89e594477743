"""Two control-plane hosts: on each a kube-scheduler, of which one leads, asks the extender beside.

The leader is killed, or its host comes to a standstill. The pods' users see to it that there is
always less room than is asked for.

A leader that goes on after another one has taken over, for as long as it doesn't look at its lease,
may give a card twice; that is the agent's to refuse when the second pod's containers are made.
"""

import collections
import contextlib
import dataclasses
import itertools
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gpustack.adapters.kube import KubeClient
from tests.control_plane import extending, fleet
from tests.control_plane.processes import Process
from tests.extender.stateful.pods import bound, finished
from tests.faults import load
from tests.faults.stage import Stage

pytestmark = pytest.mark.testbed

ELECTION = {
    "leaderElect": True,
    "leaseDuration": "3s",
    "renewDeadline": "2s",
    "retryPeriod": "500ms",
    "resourceName": "kube-scheduler",
    "resourceNamespace": "kube-system",
}
PROFILE = "elected"
CHANGES = 4
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.05
_ACQUIRED = b"uccessfully acquired lease"  # 1.37 begins it with a capital
# Of the two nodes' 16 cards: more than there is room for.
WAITING, ASKS = 30, ((30, 64), (60, 128), (100, 1), (70, 100), (200, 1))


class Host:
    """One control-plane host's scheduler and extender."""

    def __init__(self, stage: Stage, name: str, extender: extending.RunningExtender) -> None:
        self.name = name
        self._stage = stage
        self._configuration: dict[str, object] = {
            "profiles": [{"schedulerName": PROFILE}],
            "leaderElection": ELECTION,
            **extender.scheduler_configuration(),
        }
        self._starts = itertools.count()
        self._running = contextlib.ExitStack()
        self.scheduler = self._start()

    def _start(self) -> Process:
        name = f"{self.name}-{next(self._starts)}"
        return self._running.enter_context(self._stage.control.scheduler(self._configuration, name))

    @property
    def leads(self) -> bool:
        """Whether the scheduler that runs has acquired the lease."""
        return self.scheduler.running and _ACQUIRED in self.scheduler.log.read_bytes()

    def revive(self) -> None:
        """Start another scheduler in place of one that has ended or lost the lease."""
        self.end()
        self.scheduler = self._start()

    def end(self) -> None:
        """End the scheduler."""
        self._running.close()


class Users:
    """Pods that come as long as the block runs, and end soon after they are bound."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.finished: collections.Counter[str] = collections.Counter()
        self.created: list[str] = []

    def __enter__(self) -> "Users":
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Begin nothing any more."""
        self._over.set()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _work(self) -> None:
        for at in itertools.count():
            if self._over.wait(LOOK_SECONDS):
                return
            pods = self.pods()
            placed = [pod for pod in pods if bound(pod)]
            for pod in placed[: len(placed) // 4]:
                self.end(pod)
            for number in range(WAITING - len(pods)):
                self._create(f"{PROFILE}-{at}-{number}", *ASKS[(at + number) % len(ASKS)])

    def pods(self) -> list[dict[str, Any]]:
        """Return those of its pods that haven't ended."""
        items = self._client.get(load.PODS)["items"]
        return [
            pod for pod in items if pod["spec"]["schedulerName"] == PROFILE and not finished(pod)
        ]

    def _create(self, name: str, cores: int, units: int) -> None:
        value = fleet.waiting_pod(name, cores, units)
        value["spec"]["schedulerName"] = PROFILE
        self._client.post(load.PODS, value)
        self.created.append(name)

    def end(self, pod: dict[str, Any]) -> None:
        """Let a pod have done its work."""
        name = pod["metadata"]["name"]
        self._client.patch(f"{load.PODS}/{name}/status", {"status": {"phase": "Succeeded"}})
        self.finished[name] += 1


@pytest.fixture
def hosts(stage: Stage) -> Iterator[list[Host]]:
    with contextlib.ExitStack() as running:
        found = []
        for name in ("one", "two"):
            place = dataclasses.replace(stage, folder=stage.folder / name)
            place.folder.mkdir()  # each has an authority of its own
            extender = running.enter_context(place.extender(secured=True))
            found.append(Host(place, name, extender))
            running.callback(found[-1].end)
        yield found


def leader_of(hosts: list[Host], *, other_than: Host | None = None) -> Host:
    """Wait until one of them leads, and return it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for host in hosts:
            if host is not other_than and host.leads:
                return host
        time.sleep(LOOK_SECONDS)
    raise AssertionError("no scheduler leads")


def more_end(users: Users, client: KubeClient) -> None:
    """Wait until ten more pods have been bound and ended: the leader schedules."""
    before, deadline = sum(users.finished.values()), time.monotonic() + PATIENCE_SECONDS
    while sum(users.finished.values()) < before + 10:
        assert time.monotonic() < deadline, "the leader binds nothing"
        time.sleep(LOOK_SECONDS)
    load.judge(client)


def test_a_leader_change_under_load_causes_no_loss_or_double_allocation(
    stage: Stage, hosts: list[Host]
) -> None:
    with Users(stage.client) as users:
        for change in range(CHANGES):
            leader = leader_of(hosts)
            more_end(users, stage.client)
            if change % 2 == 0:
                leader.scheduler.kill()
            else:
                leader.scheduler.signal(signal.SIGSTOP)  # a host that has come to a standstill
            leader_of(hosts, other_than=leader)
            leader.scheduler.kill()
            more_end(users, stage.client)
            leader.revive()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while pods := users.pods():
        assert time.monotonic() < deadline, f"forgotten: {[p['metadata']['name'] for p in pods]}"
        for pod in pods:
            if bound(pod):
                users.end(pod)
        time.sleep(LOOK_SECONDS)
    assert set(users.finished) == set(users.created)
