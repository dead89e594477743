"""Reservations while clocks are set forward and back, and while they run."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cache.cache import ClusterCache
from extender.cache.pods import PodState
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.wire.annotations import Decision
from tests.extender.states import known, view, waiting
from tests.model.machines import node, pod

HOUR = 3600.0
SECONDS = 900.0
CARD = pod((100, 0))


@dataclass(slots=True)
class Clocks:
    """The host's clocks; ``run`` is time that passes, ``jump`` is a changed setting."""

    wall: float = 1_800_000_000.0
    monotonic: float = 50.0

    def run(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds

    def jump(self, seconds: float) -> None:
        self.wall += seconds

    def now_ns(self) -> int:
        return int(self.wall * 1e9)

    def view(self) -> ClusterCache:
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


def free(seen: ClusterCache) -> bool:
    seen.expire()
    found = seen.node("node")
    assert found is not None
    return found.uses[0].idle


def decided(asked: PodState, time_ns: int) -> PodState:
    """The pod as the watch shows it with the decision of that time."""
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
def test_a_reservation_of_another_instance_ends_by_age_for_good(clocks: Clocks, age: float) -> None:
    seen, asked = clocks.view(), waiting("a", CARD)
    there = decided(asked, int((clocks.wall - age) * 1e9))
    seen.pod_event("ADDED", there)
    assert not free(seen)
    clocks.run(SECONDS - max(age, 0.0) + 1)
    assert free(seen)
    seen.pod_event("MODIFIED", replace(there, labels_text=b"{}", version=there.version + 1))
    assert free(seen)
    assert seen.reservations == 0


def test_a_reservation_older_than_its_time_holds_nothing(clocks: Clocks) -> None:
    seen = clocks.view()
    seen.pod_event("ADDED", decided(waiting("a", CARD), int((clocks.wall - SECONDS - 1) * 1e9)))
    assert free(seen)


@given(jumps=st.lists(st.integers(-7200, 7200), max_size=20), back=st.booleans())
def test_a_decision_has_a_name_of_its_own_and_is_dated_by_the_clock(
    jumps: list[int], back: bool
) -> None:
    clocks = Clocks()
    seen = clocks.view()
    seen.pod_event("ADDED", waiting("a", CARD))
    before = seen.assume("a", cards())
    for jump in jumps:
        clocks.jump(-jump if back else jump)
        seen.forget("a", before)
        time_ns = seen.assume("a", cards())
        assert time_ns != before
        assert 0 <= time_ns - clocks.now_ns() <= 61e9
        before = time_ns


@pytest.mark.parametrize("ahead", [0.0, 5.0, 59.0, HOUR])
def test_a_decision_is_later_than_one_on_the_pod_unless_far_ahead(
    clocks: Clocks, ahead: float
) -> None:
    seen = clocks.view()
    written = clocks.now_ns() + int(ahead * 1e9)
    seen.pod_event("ADDED", decided(waiting("a", CARD), written))
    assert (seen.assume("a", cards()) > written) is (ahead < HOUR)


def test_decisions_follow_each_other_while_the_clock_is_set_back_a_little(clocks: Clocks) -> None:
    seen = clocks.view()
    seen.pod_event("ADDED", waiting("a", CARD))
    first = seen.assume("a", cards())
    clocks.jump(-5.0)
    assert seen.assume("a", cards()) > first


def refused(asked: PodState, clocks: Clocks, words: str = "0 nodes") -> PodState:
    """The pod as the scheduler leaves it when it finds no node."""
    return replace(
        asked,
        unschedulable=words,
        unschedulable_ns=clocks.now_ns(),
        version=asked.version + 1,
    )


@pytest.mark.parametrize("jump", [-HOUR, 0.0, HOUR])
@pytest.mark.parametrize("shown", [True, False])
def test_an_earlier_refusal_ends_no_decision_on_any_clock(
    clocks: Clocks, jump: float, shown: bool
) -> None:
    seen, asked = clocks.view(), refused(waiting("a", CARD), clocks)
    seen.pod_event("ADDED", asked)
    clocks.jump(jump)
    time_ns = seen.assume("a", cards())
    if shown:
        seen.pod_event("MODIFIED", decided(asked, time_ns))
    assert not free(seen)


@pytest.mark.parametrize("jump", [-HOUR, 0.0, HOUR])
@pytest.mark.parametrize(("seconds", "ends"), [(29.0, False), (31.0, True)])
def test_a_later_refusal_ends_a_decision_for_good_on_any_clock(
    clocks: Clocks, jump: float, seconds: float, ends: bool
) -> None:
    seen, asked = clocks.view(), refused(waiting("a", CARD), clocks)
    seen.pod_event("ADDED", asked)
    there = decided(asked, seen.assume("a", cards()))
    seen.pod_event("MODIFIED", there)
    clocks.jump(jump)
    clocks.run(seconds)
    again = refused(there, clocks, "1 node, and it is full")
    seen.pod_event("MODIFIED", again)
    assert free(seen) is ends
    seen.pod_event("MODIFIED", replace(again, labels_text=b"{}", version=again.version + 1))
    assert free(seen) is ends


def test_a_new_decision_of_another_instance_is_young_on_any_clock(
    clocks: Clocks,
) -> None:
    seen, asked = clocks.view(), refused(waiting("a", CARD), clocks)
    seen.pod_event("ADDED", asked)
    clocks.run(60.0)
    seen.pod_event("MODIFIED", decided(asked, int((clocks.wall - HOUR) * 1e9)))
    assert not free(seen)


@pytest.mark.parametrize(("seconds", "ends"), [(29.0, False), (31.0, True)])
def test_earlier_decisions_are_judged_by_their_written_times(
    clocks: Clocks, seconds: float, ends: bool
) -> None:
    seen = clocks.view()
    time_ns = clocks.now_ns()
    clocks.run(seconds)
    there = refused(decided(waiting("a", CARD), time_ns), clocks)
    seen.pod_event("ADDED", there)
    assert free(seen) is ends
    seen.pod_event("MODIFIED", replace(there, labels_text=b"{}", version=there.version + 1))
    assert free(seen) is ends


def test_a_reservation_stays_given_up_without_its_refusal(
    clocks: Clocks,
) -> None:
    seen = clocks.view()
    time_ns = clocks.now_ns()
    clocks.run(31.0)
    there = refused(decided(waiting("a", CARD), time_ns), clocks)
    seen.pod_event("ADDED", there)
    again = replace(there, unschedulable="", unschedulable_ns=0, version=there.version + 1)
    seen.pod_event("MODIFIED", again)
    assert free(seen)


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
    # The decision's write names the version before: the API server will refuse it now.
    seen.pod_event("MODIFIED", replace(made_up, labels_text=b"{}", version=made_up.version + 1))
    assert seen.placement("a") == cards()


def test_a_bound_pod_keeps_its_cards_for_ever(clocks: Clocks) -> None:
    seen = clocks.view()
    there = decided(waiting("a", CARD), clocks.now_ns())
    seen.pod_event("ADDED", replace(there, node="node"))
    clocks.run(100 * HOUR)
    assert not free(seen)


def test_forgetting_a_decision_keeps_a_later_one(clocks: Clocks) -> None:
    seen = clocks.view()
    seen.pod_event("ADDED", waiting("a", CARD))
    first = seen.assume("a", cards())
    second = seen.assume("a", cards())
    seen.forget("a", first)
    assert not free(seen)
    seen.forget("a", second)
    assert free(seen)
