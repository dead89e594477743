"""A tenant that harms its ledger or fills its processes' maps harms no other tenant."""

import pathlib
import subprocess
from typing import Any, NoReturn

import pytest

from gpustack.adapters import mapped
from gpustack.adapters.kube import ObjectEvent
from gpustack.agent.activity import shares
from gpustack.agent.activity.isolation_violations import IsolationViolations
from tests.agent.activity.activity import Stage

MIB = 1 << 20


def test_a_ledger_that_fills_the_disk_is_cut_and_reported(stage: Stage) -> None:
    stage.share("one")
    ledger = stage.folders.path("uid-one", "one") / "ledger"
    subprocess.run(["fallocate", "--keep-size", "--length", "64MiB", ledger], check=True)
    stage.sampler.look()
    assert ledger.stat().st_blocks * 512 < MIB
    assert [each.reason for each in stage.events] == ["LedgerDamaged"]


def test_a_ledger_with_too_many_locks_is_left_alone_for_a_while(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(path: pathlib.Path) -> NoReturn:
        asked.append(path)
        raise mapped.LockedLedgerError("ledger has too many locks")

    stage.share("one", burst=100)
    monkeypatch.setattr(mapped, "read_ledger", refuse)
    stage.sampler.look()
    stage.sampler.decide_bursts()
    stage.sampler.look()
    assert len(asked) == 1
    assert [each.reason for each in stage.events] == ["LedgerDamaged"]
    stage.now_ns += 10_000_000_000
    stage.sampler.look()
    assert len(asked) == 2


class _SlowViolations(IsolationViolations):
    """Takes 0.05 s to read a process's maps."""

    read = 0

    def __init__(self, *args: Any, **names: Any) -> None:
        super().__init__(*args, clock=lambda: 0.05 * self.read, **names)

    def _mapped(self, pid: int) -> frozenset[tuple[int, str]] | None:
        self.read += 1
        return super()._mapped(pid)


@pytest.mark.parametrize(
    ("maps", "reason"), [((), "UnhookedProcess"), (("hook",), "ForeignLimits")]
)
def test_processes_whose_maps_take_long_are_looked_at_in_turn(
    stage: Stage, tmp_path: pathlib.Path, maps: tuple[str, ...], reason: str
) -> None:
    container = stage.share("one")
    pids = [stage.process(container, memory_bytes=MIB) for _ in range(9)]
    pids.append(stage.process(container, memory_bytes=MIB, maps=maps))
    events: list[ObjectEvent] = []
    violations = _SlowViolations(events.append, hooks=tmp_path / "hooks", proc=stage.proc)
    (share,) = shares.read(stage.records, stage.folders)
    for _ in range(10):
        before = violations.read
        violations.look_at(share, tuple(pids))
        assert 0 < violations.read - before < 5
    assert [each.reason for each in events] == [reason]
