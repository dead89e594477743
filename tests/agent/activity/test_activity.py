"""The agent's pages for hooks about their cards, and its reports."""

import pathlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.agent.activity import burst_policy
from gpustack.agent.activity.shares import Share
from gpustack.wire.mapped.ledger import CardUse, LedgerReading
from tests.agent.activity.activity import CARD, Stage

MIB = 1 << 20
OWNERS = ("a", "b", "c", "d")


def test_a_page_holds_the_memory_that_no_ledger_explains(stage: Stage) -> None:
    stage.process(stage.share("one"), memory_bytes=100 * MIB)
    stage.write_ledger("one", used_bytes=64 * MIB)
    stage.process(stage.share("two"), memory_bytes=50 * MIB)
    stage.write_ledger("two", used_bytes=64 * MIB)
    for _ in range(3):
        stage.sampler.look()
    assert stage.card("one").unaccounted_bytes == 36 * MIB
    assert stage.card("two").unaccounted_bytes == 0, "a ledger may be ahead of the driver"
    assert stage.page("one").sampled_ns == stage.now_ns
    assert stage.sampler.memory.total_bytes() == 36 * MIB


def test_one_odd_sample_is_not_reported(stage: Stage) -> None:
    stage.process(stage.share("one"), memory_bytes=100 * MIB)
    stage.sampler.look()
    stage.sampler.look()
    assert stage.card("one").unaccounted_bytes == 0
    stage.sampler.look()
    assert stage.card("one").unaccounted_bytes == 100 * MIB


def test_gpu_time_adds_up_from_the_second_look(stage: Stage) -> None:
    container = stage.share("one")
    first = stage.process(container, memory_bytes=0)
    stage.nvml.busy_ns[first] = 77
    stage.sampler.look()
    assert stage.card("one").busy_ns == 0, "the start of that time is unknown"
    second = stage.process(container, memory_bytes=0)
    stage.nvml.busy_ns.update({first: 1000, second: 500})
    stage.sampler.look()
    stage.nvml.busy_ns[first] = 20
    stage.sampler.look()
    assert stage.card("one").busy_ns == 1520


def test_gpu_time_is_told_up_to_now_and_never_goes_back(stage: Stage) -> None:
    pid = stage.process(stage.share("one"), memory_bytes=0)
    stage.sampler.look()
    told = []
    # The driver's windows end a fifth of their length before the look; then the count stands still.
    stage.nvml.lag = 0.2
    for busy_ns in (1000, 1000, 100, 0):
        stage.nvml.busy_ns[pid] = busy_ns
        stage.sampler.look()
        told.append(stage.card("one").busy_ns)
    assert told == [1200, 2200, 2200, 2200]
    stage.nvml.busy_ns[pid] = 1000
    stage.sampler.look()
    assert stage.card("one").busy_ns == 3100 + 200


def test_a_burst_that_has_ended_is_not_told_on(stage: Stage) -> None:
    """The driver's windows are a second long and end half a second before each look."""
    pid = stage.process(stage.share("elastic", burst=100), memory_bytes=0)
    stage.share("hard")
    stage.nvml.span_us, stage.nvml.lag = 1_000_000, 0.5
    begin_ns, ms = stage.now_ns, 1_000_000

    def at(when_ms: int, *, claimed_ms: int, hard_wants: bool = False) -> None:
        stage.now_ns = begin_ns + when_ms * ms
        stage.write_ledger("elastic", busy_ns=claimed_ms * ms)
        stage.write_ledger("hard", last_want_ns=stage.now_ns if hard_wants else 1)
        stage.sampler.decide_bursts()

    def told_ms(seen_ms: int) -> float:
        stage.nvml.busy_ns[pid] = seen_ms * ms
        stage.sampler.look()
        return stage.card("elastic").busy_ns / ms

    stage.sampler.look()
    at(2000, claimed_ms=2000)
    assert told_ms(1000) == 1000 + 500, "as it did"
    at(2100, claimed_ms=2100, hard_wants=True)
    at(2500, claimed_ms=2100, hard_wants=True)
    at(3000, claimed_ms=2200, hard_wants=True)
    assert told_ms(600) == 1600 + 100, "as its ledger says"
    at(5000, claimed_ms=2800, hard_wants=True)
    assert told_ms(300) == 1900 + 150, "as it does now"


@pytest.mark.parametrize(("is_good", "believed_ns"), [(True, 100), (False, 1_000_000_000)])
def test_a_container_cannot_claim_more_than_the_time_that_has_passed(
    stage: Stage, *, is_good: bool, believed_ns: int
) -> None:
    """A container writes its own ledger: the agent would repeat a false figure for ever."""
    stage.start_sampler(collects_gpu_time=is_good)
    pid = stage.process(stage.share("elastic", burst=100), memory_bytes=0)
    stage.share("hard")
    stage.nvml.span_us, stage.nvml.lag = 1_000_000, 0.5
    stage.sampler.look()
    stage.write_ledger("hard", last_want_ns=stage.now_ns)
    stage.write_ledger("elastic", busy_ns=7)
    stage.sampler.decide_bursts()
    stage.now_ns += 1_000_000_000
    stage.write_ledger("elastic", busy_ns=(1 << 64) - 1)
    stage.sampler.decide_bursts()
    stage.nvml.busy_ns[pid] = 100
    stage.sampler.look()
    assert stage.card("elastic").busy_ns == believed_ns + 500_000_000


def test_a_restarted_agent_goes_on_from_the_pages(stage: Stage) -> None:
    pid = stage.process(stage.share("one"), memory_bytes=10 * MIB)
    for _ in range(3):
        stage.nvml.busy_ns[pid] = 100
        stage.sampler.look()
    before = stage.card("one")
    assert (before.busy_ns, before.unaccounted_bytes) == (200, 10 * MIB)
    stage.start_sampler()
    stage.sampler.look()
    assert stage.card("one").busy_ns == before.busy_ns
    assert stage.card("one").unaccounted_bytes == before.unaccounted_bytes


def test_a_card_that_does_not_answer_keeps_its_last_figures(stage: Stage) -> None:
    stage.process(stage.share("one"), memory_bytes=10 * MIB)
    for _ in range(3):
        stage.sampler.look()
    stage.nvml.silent.add(CARD.uuid)
    for _ in range(3):
        stage.sampler.look()
    assert stage.card("one").unaccounted_bytes == 10 * MIB


def test_a_burst_ends_when_a_neighbour_wants_its_share(stage: Stage) -> None:
    stage.share("elastic", burst=80)
    stage.share("hard")
    stage.write_ledger("elastic", last_want_ns=stage.now_ns)
    stage.write_ledger("hard", last_want_ns=1)
    stage.sampler.look()
    assert stage.card("elastic").burst_allowed
    assert not stage.card("hard").burst_allowed, "its limits allow none"
    assert stage.card("elastic").tenants_wanting == 1
    stage.now_ns += 50_000_000
    stage.write_ledger("hard", last_want_ns=stage.now_ns)
    stage.sampler.decide_bursts()
    assert not stage.card("elastic").burst_allowed
    assert stage.card("elastic").tenants_wanting == 2
    assert stage.page("elastic").sampled_ns == stage.now_ns


def test_a_neighbour_whose_ledger_cannot_be_read_wants_its_share(stage: Stage) -> None:
    stage.share("elastic", burst=100)
    stage.share("hard")
    stage.blank_ledger("hard")
    stage.sampler.look()
    assert not stage.card("elastic").burst_allowed


def test_a_newer_agents_files_are_left_alone_and_their_share_wants(stage: Stage) -> None:
    stage.share("one", burst=100)
    stage.process(stage.share("two"), memory_bytes=MIB)
    folder = stage.folders.path("uid-two", "two")
    for file in folder.iterdir():
        data = bytearray(file.read_bytes()) + bytes(4096)  # its files may be longer
        struct.pack_into("<I", data, 8, 3)
        file.write_bytes(data)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    stage.sampler.look()
    stage.sampler.decide_bursts()
    assert not stage.card("one").burst_allowed
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert [event.reason for event in stage.events] == []


@given(st.dictionaries(st.sampled_from(OWNERS), st.none() | st.integers(0, 3_000_000_000)))
def test_no_container_bursts_beside_one_that_wants_its_share(wants: dict[str, int | None]) -> None:
    """A want is the age of the last launch; None is a ledger that can't be read."""
    now_ns = 10_000_000_000
    shares = [share(name) for name in wants]
    ledgers = {
        (name, name): LedgerReading(
            cards=(CardUse(uuid=CARD.uuid, last_want_ns=now_ns - age),), slots=()
        )
        for name, age in wants.items()
        if age is not None
    }
    wishes = burst_policy.wanting(shares, ledgers, now_ns)
    for each in shares:
        others = [age for name, age in wants.items() if name != each.owner[0]]
        busy = any(age is None or age <= burst_policy.WANT_NS for age in others)
        assert burst_policy.allowed(each, CARD.uuid, wishes) == (not busy)


def share(name: str) -> Share:
    return Share(
        owner=(name, name),
        namespace="team",
        pod=name,
        uuids=(CARD.uuid,),
        elastic=frozenset({CARD.uuid}),
        memory_bytes=1 << 30,
        folder=pathlib.Path(name),
    )
