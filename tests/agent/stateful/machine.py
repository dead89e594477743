"""The events of one node as rules that hypothesis puts in any order.

A draw doesn't depend on the state: rules take numbers and choose by them, so a failing run shrinks.
"""

import pathlib
import tempfile
from collections import Counter
from typing import ClassVar

import pytest
from hypothesis import stateful
from hypothesis import strategies as st

from tests.agent.stateful.kill_points import KINDS
from tests.agent.stateful.life import NAMES, Life
from tests.agent.stateful.node import MINORS, Node
from tests.agent.stateful.workloads import SHAPES

_WHICH = st.integers(0, 7)
_MINORS = st.integers(0, len(MINORS) - 1)
_KINDS = st.frozensets(st.integers(0, KINDS - 1), max_size=8)
_SECONDS = st.sampled_from((0, 1, 3, 10, 60))


class NodeMachine(stateful.RuleBasedStateMachine):
    """An agent, its kubelet, runtime and API server."""

    steps: ClassVar[int] = 0
    judged: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="gs", dir=_quick_folder())
        self._patches = pytest.MonkeyPatch()
        self.node = Node(pathlib.Path(self._folder.name), self._patches)
        self.node.open()
        self.life = Life(self.node)

    @stateful.initialize(kinds=_KINDS)
    def begin(self, kinds: frozenset[int]) -> None:
        """The first agent may die at any point of its start, too."""
        self.life.arm(kinds)
        self.node.start_agent()

    @stateful.rule(calls=st.integers(0, 40))
    def busy(self, calls: int) -> None:
        self.life.busy(calls)

    @stateful.rule(
        shape=st.integers(0, len(SHAPES) - 1), name=st.integers(0, len(NAMES)), minor=_MINORS
    )
    def create(self, shape: int, name: int, minor: int) -> None:
        self.life.create(shape, name, minor)

    @stateful.rule(shape=st.integers(0, len(SHAPES) - 1), minor=_MINORS, memory_first=st.booleans())
    def run(self, shape: int, minor: int, memory_first: bool) -> None:
        """A pod comes and starts at once."""
        self.life.create(shape, 0, minor)
        self.life.admit(-1, memory_first)
        self.life.start(-1)

    @stateful.rule(which=_WHICH, memory_first=st.booleans())
    def admit(self, which: int, memory_first: bool) -> None:
        self.life.admit(which, memory_first)

    @stateful.rule(which=_WHICH)
    def start(self, which: int) -> None:
        self.life.start(which)

    @stateful.rule(
        which=_WHICH, how=st.sampled_from(("delete", "force", "succeed")), seconds=_SECONDS
    )
    def end(self, which: int, how: str, seconds: int) -> None:
        self.life.end(which, how, seconds)

    @stateful.rule(which=_WHICH, shape=st.integers(0, len(SHAPES) - 1), minor=_MINORS)
    def replace(self, which: int, shape: int, minor: int) -> None:
        """A pod is deleted, and the next one of its name comes at once."""
        self.life.end(which, "delete", 0)
        self.life.create(shape, which, minor)

    @stateful.rule(which=_WHICH)
    def remove(self, which: int) -> None:
        self.life.remove(which)

    @stateful.rule(kinds=_KINDS)
    def arm(self, kinds: frozenset[int]) -> None:
        self.life.arm(kinds)

    @stateful.rule(away=st.sampled_from((False, False, False, True)))
    def kill(self, away: bool) -> None:
        self.life.kill(away)

    @stateful.rule()
    def come_back(self) -> None:
        self.life.kubelet.away = False

    @stateful.rule(crash=st.booleans(), early=st.integers(0, 3))
    def restart_kubelet(self, crash: bool, early: int) -> None:
        self.life.restart_kubelet(crash, early)

    @stateful.rule(early=st.integers(0, 3), agent_first=st.booleans())
    def reboot(self, early: int, agent_first: bool) -> None:
        self.life.reboot(early, agent_first)

    @stateful.rule(minor=_MINORS, back=st.booleans())
    def lose_card(self, minor: int, back: bool) -> None:
        self.life.lose_card(minor, back)

    @stateful.rule(seconds=_SECONDS)
    def wait(self, seconds: int) -> None:
        self.life.wait(seconds)

    @stateful.rule(seconds=st.sampled_from((0, 0, 1, 5, 30, 300)))
    def lag(self, seconds: int) -> None:
        self.life.lag(seconds)

    @stateful.rule(what=st.sampled_from(("recovery", "audit", "writes", "register")))
    def work(self, what: str) -> None:
        self.life.work(what)

    @stateful.rule()
    def settle(self) -> None:
        self.life.settle()

    @stateful.invariant()
    def nothing_is_wrong(self) -> None:
        type(self).steps += 1
        assert not self.life.truth.wrong, self.life.truth.wrong

    def teardown(self) -> None:
        try:
            self.life.settle()
            assert not self.life.truth.wrong, self.life.truth.wrong
        finally:
            self.judged["started"] += self.life.kubelet.started
            self.judged["agents"] += self.node.starts
            self.node.close()
            self._patches.undo()
            self._folder.cleanup()


def _quick_folder() -> str | None:
    """A folder in memory, where there is one: an agent syncs each of its writes to the disk."""
    memory = pathlib.Path("/dev/shm")
    return str(memory) if memory.is_dir() else None
