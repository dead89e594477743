"""Reservations while clocks are set forward and back, and while they simply run."""

from dataclasses import dataclass, replace

import pytest

from extender.state.pods import PodState
from extender.state.view import ClusterView
from gpustack.model.holding import Placement
from gpustack.model.placement import place
from gpustack.wire.annotations import Decision
from tests.extender.states import known, view, waiting
from tests.model.machines import node, pod

HOUR = 3600.0
SECONDS = 900.0
CARD = pod((100, 0))


@dataclass(slots=True)
class Clocks:
    """What the host says it is; ``run`` is time that passes, ``jump`` is somebody's doing."""

    wall: float = 1_800_000_000.0
    monotonic: float = 50.0

    def run(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds

    def jump(self, seconds: float) -> None:
        self.wall += seconds

    def now_ns(self) -> int:
        return int(self.wall * 1e9)

    def view(self) -> ClusterView:
        seen = view(reservation_seconds=SECONDS, now_ns=self.now_ns, clock=lambda: self.monotonic)
        seen.set_node(known(node(1)))
        return seen


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def cards() -> Placement:
    found = place(node(1), CARD)
    assert isinstance(found, Placement)
    return found


def free(seen: ClusterView) -> bool:
    seen.expire()
    found = seen.node("node")
    assert found is not None
    return found.uses[0].idle


def decided(asked: PodState, time_ns: int) -> PodState:
    """The pod as the watch shows it once the decision of that time stands on it."""
    decision = Decision(node="node", time_ns=time_ns, assigned=False, placement=cards())
    return replace(asked, decision=decision, version=asked.version + 1)


@pytest.mark.parametrize("jump", [-10 * HOUR, -61.0, 0.0, 61.0, 10 * HOUR])
@pytest.mark.parametrize("shown", [True, False])
def test_a_reservation_made_here_lasts_its_time_however_the_clock_is_set(
    clocks: Clocks, jump: float, shown: bool
) -> None:
    seen, asked = clocks.view(), waiting("a", CARD)
    seen.pod_event("ADDED", asked)
    time_ns = seen.assume("a", cards())
    clocks.jump(jump)
    if shown:
        seen.pod_event("MODIFIED", decided(asked, time_ns))
    assert not free(seen)
    clocks.run(SECONDS - 1)
    assert not free(seen)
    clocks.run(2)
    assert free(seen)


@pytest.mark.parametrize("age", [-10 * HOUR, -1.0, 0.0, 100.0])
def test_a_reservation_of_another_instance_ends_by_age_and_does_not_return(
    clocks: Clocks, age: float
) -> None:
    seen, asked = clocks.view(), waiting("a", CARD)
    there = decided(asked, int((clocks.wall - age) * 1e9))
    seen.pod_event("ADDED", there)
    assert not free(seen)
    clocks.run(SECONDS - max(age, 0.0) + 1)
    assert free(seen)
    seen.pod_event("MODIFIED", replace(there, labels={"a": "b"}, version=there.version + 1))
    assert free(seen)
    assert seen.reservations == 0


def test_a_reservation_older_than_its_time_is_none(clocks: Clocks) -> None:
    seen = clocks.view()
    seen.pod_event("ADDED", decided(waiting("a", CARD), int((clocks.wall - SECONDS - 1) * 1e9)))
    assert free(seen)


def test_a_decision_after_the_clock_was_set_back_is_later_than_the_one_before(
    clocks: Clocks,
) -> None:
    seen, asked = clocks.view(), waiting("a", CARD)
    seen.pod_event("ADDED", asked)
    first = seen.assume("a", cards())
    clocks.jump(-HOUR)
    assert seen.assume("a", cards()) > first


def test_a_decision_waits_for_its_write_until_the_pod_is_another_version(clocks: Clocks) -> None:
    seen = clocks.view()
    seen.set_node(known(node(2)))
    made_up = decided(waiting("a", CARD), 10**18 * 9)
    seen.pod_event("ADDED", made_up)
    other = Placement(
        node="node", containers=(replace(cards().containers[0], minors=(1,), uuids=("GPU-1",)),)
    )
    assert seen.assume("a", other) < 10**19
    assert seen.placement("a") == other
    # Its write names the version that it was made on: it will be refused now.
    seen.pod_event("MODIFIED", replace(made_up, labels={"a": "b"}, version=made_up.version + 1))
    assert seen.placement("a") == cards()


def test_a_bound_pod_keeps_its_cards_for_ever(clocks: Clocks) -> None:
    seen = clocks.view()
    there = decided(waiting("a", CARD), clocks.now_ns())
    seen.pod_event("ADDED", replace(there, node="node"))
    clocks.run(100 * HOUR)
    assert not free(seen)


def test_what_is_taken_back_by_its_time_is_not_what_was_decided_since(clocks: Clocks) -> None:
    seen = clocks.view()
    seen.pod_event("ADDED", waiting("a", CARD))
    first = seen.assume("a", cards())
    second = seen.assume("a", cards())
    seen.forget("a", first)
    assert not free(seen)
    seen.forget("a", second)
    assert free(seen)
