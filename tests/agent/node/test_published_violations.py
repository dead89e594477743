"""Violations on the node object: written with the cards, and by themselves once a minute."""

import threading
from collections.abc import Callable

import pytest

from gpustack.adapters.kube import EventRecorder, KubeClient
from gpustack.agent.health import build as health
from gpustack.agent.node import publisher
from gpustack.agent.node.publisher import NodePatch, NodePublisher
from gpustack.agent.violations.standing import StandingViolations
from gpustack.model.node import Node
from gpustack.wire import violations
from gpustack.wire.violations import MOST, ShareViolation
from tests.agent.host import KEYS, NODE, Host
from tests.agent.violations.test_killed_pods import damage
from tests.fakes.nvml import card


def said(host: Host) -> tuple[ShareViolation, ...]:
    return violations.decode(violations.text_of(KEYS, host.api.get("nodes", NODE)))


def test_a_violation_stands_on_the_node_until_its_pod_is_gone(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "_LISTED_SECONDS", 0.0)
    host.start_agent()
    pod = host.share("taker")
    running = damage(host, pod)
    host.wait_until(lambda: said(host) != ())
    (found,) = said(host)
    assert (found.uid, found.container) == (pod["metadata"]["uid"], "c0")
    assert found.reason == "LedgerDamaged"
    host.api.delete("pods", "taker")
    host.cri.exit(running)
    host.wait_until(lambda: said(host) == ())
    annotations = host.api.get("nodes", NODE)["metadata"]["annotations"]
    assert KEYS.gpu_violations not in annotations


class Minutes:
    """A publisher by a clock of its own: a second passes at each of its looks.

    Args:
        host: its API server, and its cards.
        each_second: what happens in a second.
    """

    def __init__(self, host: Host, each_second: Callable[["Minutes"], None]) -> None:
        self.now = 0
        self.standing = StandingViolations(now=self.clock, clock=self.clock)
        client = KubeClient.from_kubeconfig(host.settings().kubeconfig)
        recorder = EventRecorder(client, component="test")
        self.inventory = health.inventory(host.settings(), host.nvml, recorder)
        self._api = host.api
        self._each_second = each_second
        self._stop = threading.Event()
        self._until = 0
        self._publisher = NodePublisher(
            client,
            NodePatch(KEYS),
            self.inventory,
            held=self._pass,
            violations=self.standing,
            clock=self.clock,
        )

    def clock(self) -> float:
        return float(self.now)

    def find(self, container: str) -> None:
        self.standing.found(("uid", container), "ShareExceeded")

    def _pass(self, node: Node) -> Node:
        self.now += 1
        self._each_second(self)
        self.standing.begin_look(frozenset(("uid", f"c{at}") for at in range(2000)))
        if self.now >= self._until:
            self._stop.set()
        return self.inventory.node

    def run(self, seconds: int) -> list[list[str]]:
        """Return the containers that each write of these seconds names."""
        self._until = self.now + seconds
        self._publisher.run(self._stop)
        texts = [
            (request.body or {})["metadata"]["annotations"][KEYS.gpu_violations] or ""
            for request in self._api.asked("PATCH", f"/nodes/{NODE}$")
        ]
        return [[each.container for each in violations.decode(text)] for text in texts]


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "_LOOK_SECONDS", 0.001)


def test_a_new_violation_each_second_costs_a_write_a_minute(host: Host) -> None:
    def each_second(minutes: Minutes) -> None:
        if minutes.now > 5:
            minutes.find(f"c{minutes.now}")

    written = Minutes(host, each_second).run(245)
    assert [each[:1] for each in written] == [[], ["c6"], ["c66"], ["c126"], ["c186"]]
    assert len(written[-1]) == MOST


def test_a_violation_that_comes_and_goes_costs_one_write(host: Host) -> None:
    def each_second(minutes: Minutes) -> None:
        if minutes.now % 2:
            minutes.find("c1")

    assert Minutes(host, each_second).run(590) == [["c1"]]


def test_a_cards_health_waits_for_no_violation(host: Host) -> None:
    def each_second(minutes: Minutes) -> None:
        if minutes.now in {2, 10}:
            minutes.find(f"c{minutes.now}")
        if minutes.now == 12:
            minutes.inventory.quarantine(card(1).uuid, "a test")

    assert Minutes(host, each_second).run(200) == [[], ["c2"], ["c10", "c2"]]


def test_every_ten_minutes_an_edit_is_undone(host: Host) -> None:
    assert Minutes(host, lambda minutes: minutes.find("c1")).run(1300) == [["c1"]] * 3


def test_a_static_pods_violation_is_said_of_its_mirror(host: Host) -> None:
    """The kubelet knows it by another UID than the API server, where people look."""
    host.start_agent()
    mirror, static = host.static_pod("taker")
    damage(host, static)
    host.wait_until(lambda: said(host) != ())
    assert [each.uid for each in said(host)] == [mirror["metadata"]["uid"]]
