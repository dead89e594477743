"""What doesn't change isn't read again: maps, containers of processes, limits, pages."""

import os
import pathlib
from typing import Any

import pytest

from gpustack.adapters.memory_maps import MappedFile
from gpustack.agent.activity.shares import Share
from gpustack.agent.containers.limits_files import LimitsFiles
from gpustack.agent.identification.process_owners import Owner, ProcessOwners
from gpustack.agent.identification.runtime import RuntimeView
from gpustack.agent.violations.isolation_violations import IsolationViolations
from tests.agent.activity.activity import Stage

MIB = 1 << 20
MS = 1_000_000


def write_stat(proc: pathlib.Path, pid: int, *, started: int, stack: int) -> None:
    """Write /proc/PID/stat of a process with that start time and stack, of a hostile name."""
    fields = ["S", *map(str, range(4, 53))]
    fields[22 - 3], fields[28 - 3] = str(started), str(stack)
    (proc / str(pid) / "stat").write_text(f"{pid} (a) 1 (b) {' '.join(fields)}\n")


def _calls(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[tuple[Any, ...]]:
    """Return the arguments of all later calls of a method."""
    calls: list[tuple[Any, ...]] = []
    method = getattr(owner, name)

    def called(self: Any, *args: Any) -> Any:
        calls.append(args)
        return method(self, *args)

    monkeypatch.setattr(owner, name, called)
    return calls


class _Counting(IsolationViolations):
    """Counts the maps that it reads."""

    read = 0

    def _mapped(self, pid: int, owner: Owner) -> frozenset[MappedFile] | None:
        self.read += 1
        return super()._mapped(pid, owner)


def _share(stage: Stage) -> Share:
    (share,) = stage.sampler._reader.read()
    return share


def test_the_maps_of_a_process_are_read_once_a_program(stage: Stage) -> None:
    pid = stage.process(stage.share("one"), memory_bytes=MIB)
    write_stat(stage.proc, pid, started=5, stack=1)
    now = [0.0]
    hooks = stage.proc.parent / "hooks"
    violations = _Counting(stage.events.append, hooks=hooks, proc=stage.proc, now=lambda: now[0])
    for _ in range(3):
        violations.look([(_share(stage), (pid,))])
    assert violations.read == 1
    stage.write_maps(pid, "", ())
    write_stat(stage.proc, pid, started=5, stack=2)  # it has replaced itself by another program
    violations.look([(_share(stage), (pid,))])
    assert violations.read == 2
    assert [each.reason for each in stage.events] == ["UnhookedProcess"]


@pytest.mark.parametrize("later", ["another process", "two minutes"])
def test_maps_are_read_again_for_a_reused_pid_and_after_a_while(stage: Stage, later: str) -> None:
    pid = stage.process(stage.share("one"), memory_bytes=MIB)
    write_stat(stage.proc, pid, started=5, stack=1)
    now = [0.0]
    violations = _Counting(
        stage.events.append,
        hooks=stage.proc.parent / "hooks",
        proc=stage.proc,
        now=lambda: now[0],
    )
    violations.look([(_share(stage), (pid,))])
    if later == "two minutes":
        now[0] = 120.0
    else:
        write_stat(stage.proc, pid, started=6, stack=1)
    stage.write_maps(pid, "", ())
    violations.look([(_share(stage), (pid,))])
    assert [each.reason for each in stage.events] == ["UnhookedProcess"]


def test_a_process_whose_start_is_not_known_is_looked_at_each_time(stage: Stage) -> None:
    pid = stage.process(stage.share("one"), memory_bytes=MIB)
    violations = _Counting(stage.events.append, hooks=stage.proc.parent / "hooks", proc=stage.proc)
    for _ in range(3):
        violations.look([(_share(stage), (pid,))])
    assert violations.read == 3


class _SlowViolations(_Counting):
    """Takes 0.2 s of CPU to read a process's maps."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(
            stage.events.append,
            hooks=stage.proc.parent / "hooks",
            proc=stage.proc,
            clock=lambda: 0.2 * self.read,
        )


def test_containers_whose_maps_take_long_are_looked_at_in_turn(stage: Stage) -> None:
    """Together they take a bounded part of a look; the pages of other tenants don't get old."""
    pids = {}
    for number in range(6):
        pids[f"c{number}"] = stage.process(stage.share(f"c{number}"), memory_bytes=MIB, maps=())
    sights = [(share, (pids[share.pod],)) for share in stage.sampler._reader.read()]
    violations = _SlowViolations(stage)
    for _ in range(6):
        before = violations.read
        violations.look(sights)
        assert violations.read - before == 1
    assert sorted(each.name for each in stage.events) == sorted(pids)


def _owners(stage: Stage, clock: list[float]) -> ProcessOwners:
    view = RuntimeView(stage._client)
    return ProcessOwners(view, proc=stage.proc, clock=lambda: clock[0])


def test_the_runtime_is_asked_about_new_containers_only(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _calls(monkeypatch, RuntimeView, "containers")
    clock = [0.0]
    owners = _owners(stage, clock)
    first = stage.process(stage.share("one"), memory_bytes=0)
    for _ in range(3):
        assert owners.now()(first) == ("uid-one", "one")
    second = stage.process(stage.share("two"), memory_bytes=0)
    assert owners.now()(second) == ("uid-two", "two")
    assert len(asked) == 2


def test_a_container_of_no_pod_is_asked_about_now_and_then(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _calls(monkeypatch, RuntimeView, "containers")
    clock = [0.0]
    owners = _owners(stage, clock)
    pid = stage.process(stage.share("one"), memory_bytes=0)
    (stage.proc / str(pid) / "cgroup").write_text(f"0::/docker/{'e' * 64}\n")
    for second in range(11):
        clock[0] = float(second)
        assert owners.now()(pid) is None
    assert len(asked) == 3, "every five seconds, as when nothing is new"


def test_a_reused_pid_is_another_container(stage: Stage) -> None:
    clock = [0.0]
    owners = _owners(stage, clock)
    one, two = stage.share("one"), stage.share("two")
    pid = stage.process(one, memory_bytes=0)
    write_stat(stage.proc, pid, started=5, stack=1)
    assert owners.now()(pid) == ("uid-one", "one")
    (stage.proc / str(pid) / "cgroup").write_text(f"0::/kubepods/pod1/{two}\n")
    assert owners.now()(pid) == ("uid-one", "one"), "it is the same process"
    write_stat(stage.proc, pid, started=6, stack=1)
    assert owners.now()(pid) == ("uid-two", "two")


def test_limits_are_read_when_they_have_changed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = _calls(monkeypatch, LimitsFiles, "limits")
    stage.share("one")
    path = stage.folders.path("uid-one", "one") / "limits"
    for _ in range(3):
        stage.sampler.look()
    assert len(read) == 3, "a file that was written just now may be written again at the same time"
    old = path.stat().st_mtime_ns - 60_000 * MS
    os.utime(path, ns=(old, old))
    read.clear()
    for _ in range(3):
        stage.sampler.look()
    assert len(read) == 1
    stage.set_burst("one", 80)
    stage.sampler.look()
    assert len(read) == 2
    assert _share(stage).elastic


@pytest.mark.parametrize(("is_read", "seconds"), [(True, 2), (False, 10)])
def test_an_unchanged_page_is_written_before_it_is_too_old(
    stage: Stage, is_read: bool, seconds: int
) -> None:
    stage.share("one")
    if is_read:
        stage.write_ledger("one")
    stage.sampler.look()
    begun = stage.page("one").sampled_ns
    later: list[int] = []
    while len(later) < seconds:
        stage.now_ns += 1_000 * MS
        stage.sampler.look()
        later.append(stage.page("one").sampled_ns - begun)
    assert later == [*[0] * (seconds - 1), seconds * 1_000 * MS]


def test_the_page_of_a_bursting_process_is_never_as_old_as_a_second(stage: Stage) -> None:
    stage.share("elastic", burst=100)
    stage.write_ledger("elastic", last_want_ns=1)
    for step in range(60):
        stage.now_ns += 50 * MS
        stage.sampler.look() if step % 20 == 0 else stage.sampler.decide_bursts()
        assert stage.card("elastic").burst_allowed
        assert stage.now_ns - stage.page("elastic").sampled_ns <= 500 * MS


def test_a_wish_ends_without_a_change_of_any_ledger(stage: Stage) -> None:
    stage.share("elastic", burst=100)
    stage.share("hard")
    stage.write_ledger("elastic", last_want_ns=1)
    stage.write_ledger("hard", last_want_ns=stage.now_ns)
    stage.sampler.look()
    assert not stage.card("elastic").burst_allowed
    stage.now_ns += 950 * MS
    stage.sampler.decide_bursts()
    assert not stage.card("elastic").burst_allowed
    stage.now_ns += 100 * MS
    stage.sampler.decide_bursts()
    assert stage.card("elastic").burst_allowed
