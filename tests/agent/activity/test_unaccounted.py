"""Memory outside the ledgers is found, also between releases; no honest program is accused."""

import shutil
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from gpustack.agent.activity.unaccounted import MemorySample, UnaccountedMemory
from tests.agent.activity.activity import CARD, Stage

MIB = 1 << 20
SHARE = 10
OWNER = "uid", "main"


def honest_moments(choices: list[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the ledger's count of operations, its charge, and the driver's memory after each step.

    Threads allocate (charge, then take) and free (release, then refund), between each other in any
    way; the hook refuses what is above the share.
    """
    charged, held, operations = 0, 0, 0
    charging: list[int] = []  # charged, not yet taken
    owned: list[int] = []
    refunding: list[int] = []  # freed, still charged
    yield operations, charged, held
    for choice in choices:
        step, size = choice % 4, 1 + choice // 4 % SHARE
        if step == 0 and charged + size <= SHARE:
            charging.append(size)
            charged, operations = charged + size, operations + 1
        elif step == 1 and charging:
            owned.append(charging.pop(choice % len(charging)))
            held += owned[-1]
        elif step == 2 and owned:
            refunding.append(owned.pop(choice % len(owned)))
            held -= refunding[-1]
        elif step == 3 and refunding:
            charged, operations = charged - refunding.pop(), operations + 1
        yield operations, charged, held


@given(st.lists(st.integers(0, 1000), min_size=3, max_size=60), st.data())
def test_no_honest_program_has_unaccounted_memory_at_any_moment(
    choices: list[int], data: st.DataObject
) -> None:
    """The looks at ledger, driver and ledger are apart by any number of its steps."""
    moments = list(honest_moments(choices))
    at = st.integers(0, len(moments) - 1)
    before, then, after = sorted(data.draw(st.tuples(at, at, at)))
    sample = MemorySample(
        seen_bytes=moments[then][2],
        charged_bytes=moments[after][1],
        share_bytes=SHARE,
        moved=moments[before][0] != moments[after][0],
    )
    assert sample.unaccounted_bytes == sample.above_bytes == 0


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30), st.integers(0, 1000))
def test_unaccounted_is_what_was_there_at_three_of_ten(seen: list[int], charged: int) -> None:
    found, each = UnaccountedMemory(), []
    found.begin(OWNER, CARD.uuid, 7)
    for seen_bytes in seen:
        sample = MemorySample(seen_bytes=seen_bytes, charged_bytes=charged, share_bytes=SHARE)
        each.append(sample.unaccounted_bytes)
        third = sorted([*[7] * 10, *each][-10:])[-3]
        assert found.add(OWNER, CARD.uuid, sample) == found.total_bytes() == third


@given(st.integers(1, 2), st.integers(0, 9))
def test_memory_of_a_process_that_ends_is_not_held_against_the_next(looks: int, begin: int) -> None:
    """The driver takes its time to free it, when its place in the ledger is another's already."""
    found = UnaccountedMemory()
    for look in range(20):
        ending = SHARE if begin <= look < begin + looks else 0
        sample = MemorySample(seen_bytes=SHARE + ending, charged_bytes=SHARE, share_bytes=SHARE)
        assert found.add(OWNER, CARD.uuid, sample) == 0


def test_memory_released_between_looks_is_counted_and_said(stage: Stage) -> None:
    container = stage.share("one")
    stage.write_ledger("one", used_bytes=64 * MIB)
    for _ in range(4):
        for memory_bytes in (3 << 30, 3 << 30, 64 * MIB):
            stage.nvml.running.clear()
            stage.process(container, memory_bytes=memory_bytes)
            stage.sampler.look()
    assert stage.card("one").unaccounted_bytes == (3 << 30) - 64 * MIB
    assert [each.reason for each in stage.events] == ["MemoryAboveShare"]
    assert "2048 MiB" in str(stage.events[0].message)
    assert stage.escapes.containers["MemoryAboveShare"] == 1


def test_a_charge_while_the_driver_is_asked_is_no_unaccounted_memory(stage: Stage) -> None:
    """The ledger is looked at on both sides of the driver's answer."""
    stage.process(stage.share("one"), memory_bytes=1000 * MIB)
    stage.write_ledger("one", used_bytes=1000 * MIB)
    processes = stage.nvml.processes

    def asked(uuid: str) -> object:
        found = processes(uuid)
        stage.write_ledger("one", used_bytes=1)  # freed, and given back, after the answer
        return found

    for _ in range(10):
        stage.write_ledger("one", used_bytes=1000 * MIB)
        stage.nvml.processes = asked  # type: ignore[method-assign,assignment]
        stage.sampler.look()
    assert stage.card("one").unaccounted_bytes == 0


def test_processes_without_a_slot_are_said_once(stage: Stage) -> None:
    container = stage.share("one")
    stage.write_ledger("one", used_bytes=64 * MIB)
    for _ in range(3):
        stage.write_pages(stage.process(container, memory_bytes=32 * MIB), 1000)
    for _ in range(5):
        stage.sampler.look()
    (event,) = stage.events
    assert event.reason == "UncountedProcess"
    assert f"2 of its processes on card {CARD.uuid}" in str(event.message)


def test_processes_that_end_need_no_slot(stage: Stage) -> None:
    """The kernel drops the slot's lock with the memory; the driver frees its own later."""
    container = stage.share("one")
    stage.write_ledger("one", used_bytes=64 * MIB)
    stage.write_pages(stage.process(container, memory_bytes=32 * MIB), 1000)
    stage.write_pages(stage.process(container, memory_bytes=32 * MIB), 0)
    for _ in range(5):
        stage.sampler.look()
    assert stage.events == []


def test_memory_of_no_process_is_shown_and_said_once_while_it_lasts(stage: Stage) -> None:
    stage.share("one")
    stage.nvml.unowned[CARD.uuid] = 5 << 30
    for _ in range(5):
        stage.sampler.look()
    assert stage.sampler.memory.unowned_bytes == {CARD.uuid: 5 << 30}
    (event,) = stage.events
    assert (event.kind, event.name, event.reason) == ("Node", "gpu1", "UnexplainedUse")
    assert f"5120 MiB of card {CARD.uuid}" in str(event.message)
    for unowned_bytes in (0, 5 << 30):
        stage.nvml.unowned[CARD.uuid] = unowned_bytes
        for _ in range(10):
            stage.sampler.look()
    assert len(stage.events) == 2


def test_memory_of_no_process_that_doubles_is_said_at_once(stage: Stage) -> None:
    """The recorder drops a second Event of a topic within a minute."""
    stage.share("one")
    for unowned_bytes in (600 * MIB, 79 << 30, 600 * MIB, 79 << 30):
        stage.nvml.unowned[CARD.uuid] = unowned_bytes
        for _ in range(10):
            stage.sampler.look()
    assert [str(event.message).split(" of ")[0] for event in stage.events] == [
        "600 MiB",
        f"{79 << 10} MiB",
    ]
    assert len({event.topic for event in stage.events}) == 2


def test_memory_of_no_process_that_stays_is_said_again(stage: Stage) -> None:
    stage.share("one")
    memory = stage.sampler.memory
    for unowned_bytes, looks, said in ((5 << 30, 602, 1), (6 << 30, 600, 2), (6 << 30, 600, 3)):
        for _ in range(looks):
            memory.take_unowned({CARD.uuid: unowned_bytes})
        assert len(stage.events) == said
    assert "6144 MiB" in str(stage.events[-1].message)


def test_what_a_driver_keeps_for_itself_is_shown_and_not_said(stage: Stage) -> None:
    stage.share("one")
    stage.nvml.unowned[CARD.uuid] = 400 * MIB
    for _ in range(5):
        stage.sampler.look()
    assert stage.sampler.memory.unowned_bytes == {CARD.uuid: 400 * MIB}
    assert stage.events == []


def test_memory_of_a_process_that_is_gone_belongs_to_none(stage: Stage) -> None:
    """A child that has inherited its descriptors keeps it; nvidia-smi then says "[Not Found]"."""
    container = stage.share("one")
    gone = stage.process(container, memory_bytes=2 << 30)
    stage.process(container, memory_bytes=64 * MIB)
    shutil.rmtree(stage.proc / str(gone))
    stage.nvml.unowned[CARD.uuid] = 1 << 30
    for _ in range(3):
        stage.sampler.look()
    assert stage.sampler.memory.unowned_bytes == {CARD.uuid: 3 << 30}
    assert stage.card("one").unaccounted_bytes == 64 * MIB
    assert [each.reason for each in stage.events] == ["UnexplainedUse"]
