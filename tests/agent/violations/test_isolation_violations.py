"""Ways out of a share that the host can see are reported, once a container."""

import shutil
import tracemalloc

import pytest

from gpustack.agent.activity.shares import Shares
from gpustack.agent.violations import maps_reader
from tests.agent.activity.activity import OURS, Stage

MIB = 1 << 20


def test_a_damaged_ledger_is_reported_once_and_counts_everything(stage: Stage) -> None:
    stage.process(stage.share("one"), memory_bytes=10 * MIB)
    stage.cut_ledger("one")
    for _ in range(3):
        stage.sampler.look()
    assert stage.card("one").unaccounted_bytes == 10 * MIB
    assert [(each.name, each.reason, each.warning) for each in stage.events] == [
        ("one", "LedgerDamaged", True)
    ]
    assert stage.escapes.containers["LedgerDamaged"] == 1


def test_a_cleared_sum_is_reported_once_and_counts_what_it_hides(stage: Stage) -> None:
    stage.process(stage.share("one"), memory_bytes=10 * MIB)
    stage.write_ledger("one", used_bytes=10 * MIB)
    stage.sampler.look()
    stage.write_sum("one", 2 * MIB)
    for _ in range(3):
        stage.sampler.look()
    assert [each.reason for each in stage.events] == ["LedgerDamaged"]
    assert "its sum isn't that" in str(stage.events[0].message)
    assert (stage.escapes.containers["LedgerDamaged"], stage.card("one").unaccounted_bytes) == (
        1,
        8 * MIB,
    )


def test_a_process_without_the_hook_is_reported_once(stage: Stage) -> None:
    container = stage.share("one")
    stage.process(container, memory_bytes=MIB)
    stage.sampler.look()
    assert not stage.events
    loose = stage.process(container, memory_bytes=MIB, maps=())
    stage.sampler.look()
    stage.sampler.look()
    (event,) = stage.events
    assert event.reason == "UnhookedProcess"
    assert f"train (host PID {loose})" in str(event.message)
    assert stage.escapes.containers["UnhookedProcess"] == 1


def test_a_container_is_reported_once_though_its_ceiling_changes(stage: Stage) -> None:
    stage.process(stage.share("one"), memory_bytes=MIB, maps=())
    stage.cut_ledger("one")
    stage.sampler.look()
    stage.set_burst("one", 90)
    stage.sampler.look()
    assert [each.reason for each in stage.events] == ["LedgerDamaged", "UnhookedProcess"]
    assert (
        stage.escapes.containers["LedgerDamaged"],
        stage.escapes.containers["UnhookedProcess"],
    ) == (1, 1)


def test_a_process_named_like_a_line_of_the_log_stays_in_ours(stage: Stage) -> None:
    pid = stage.process(stage.share("one"), memory_bytes=MIB, maps=())
    (stage.proc / str(pid) / "comm").write_text("a\n<3>b\n")
    stage.sampler.look()
    (event,) = stage.events
    assert rf"a\n<3>b (host PID {pid})" in str(event.message)


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x85", "\u2028"])
def test_no_file_name_makes_up_a_line_of_maps(stage: Stage, end: str) -> None:
    container = stage.share("one")
    pid = stage.process(container, memory_bytes=MIB, maps=OURS)
    maps = stage.proc / str(pid) / "maps"
    ours = maps.read_text().splitlines()[2:]
    forged = "400000-401000 r-xp 0 00:00 3 /tmp/" + "".join(end + line for line in ours)
    maps.write_text(forged, newline="")
    stage.sampler.look()
    assert [each.reason for each in stage.events] == ["UnhookedProcess"]


def test_long_maps_take_no_memory_and_are_read_so_far(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maps_reader, "_WAIT_SECONDS", 10.0)
    container = stage.share("one")
    pid = stage.process(container, memory_bytes=MIB, maps=OURS)
    maps = stage.proc / str(pid) / "maps"
    ours = maps.read_bytes()
    line = b"400000-401000 r-xp 0 00:00 3 /tmp/" + b"x" * 4000 + b"\n"
    maps.write_bytes(line * 4000 + ours)  # 16 MB
    tracemalloc.start()
    stage.sampler.look()
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 4 * MIB
    assert not stage.events
    maps.write_bytes(line * 5000 + ours)
    stage.sampler.look()
    assert [each.reason for each in stage.events] == ["UnhookedProcess"]


def test_a_folder_that_is_lost_within_a_look_does_not_end_it(stage: Stage) -> None:
    pid = stage.process(stage.share("one"), memory_bytes=MIB)
    (share,) = Shares(stage.records, stage.folders).read()
    shutil.rmtree(share.folder)
    share.folder.touch()
    for _ in range(2):
        stage.escapes.look_at(share, (pid,))
    assert not stage.events, "a library that is not there can't be mapped"


def test_a_reported_process_is_not_looked_at_again(stage: Stage) -> None:
    container = stage.share("one")
    pid = stage.process(container, memory_bytes=MIB, maps=())
    stage.sampler.look()
    stage.write_maps(pid, container, ("hook",))
    for _ in range(3):
        stage.sampler.look()
    assert [each.reason for each in stage.events] == ["UnhookedProcess"]


@pytest.mark.parametrize(
    "maps",
    [
        ("hook", "~limits", "activity", "ledger"),
        ("hook", "limits", "~activity", "ledger"),
        ("hook", "limits", "activity", "~ledger"),
        ("hook", "@limits", "activity", "ledger"),
        ("hook",),
    ],
)
def test_a_process_that_maps_its_own_files_is_reported_at_the_second_look(
    stage: Stage, maps: tuple[str, ...]
) -> None:
    pid = stage.process(stage.share("one"), memory_bytes=MIB, maps=maps)
    stage.sampler.look()
    assert not stage.events, "it may be about to map them"
    for _ in range(3):
        stage.sampler.look()
    (event,) = stage.events
    assert event.reason == "ForeignLimits"
    assert f"train (host PID {pid})" in str(event.message)
    assert stage.escapes.containers["ForeignLimits"] == 1


@pytest.mark.parametrize("hook", ["~hook", "@hook"])
def test_a_file_of_the_hooks_name_is_not_the_hook(stage: Stage, hook: str) -> None:
    stage.process(stage.share("one"), memory_bytes=MIB, maps=(hook, *OURS[1:]))
    stage.sampler.look()
    assert [each.reason for each in stage.events] == ["UnhookedProcess"]


def test_the_unaccounted_memory_of_a_container_goes_with_it(stage: Stage) -> None:
    stage.process(stage.share("one"), memory_bytes=10 * MIB)
    for _ in range(3):
        stage.sampler.look()
    stage.records.remove("uid-one")
    stage.folders.remove("uid-one")
    stage.sampler.look()
    assert stage.sampler.memory.total_bytes() == 0
