"""What a tenant may do to its ledger besides writing into it takes nothing from the others."""

import pathlib
import subprocess
from collections.abc import Iterator
from typing import NoReturn

import pytest

from gpustack.adapters import mapped
from tests.agent import activity
from tests.agent.activity import Stage

MIB = 1 << 20


@pytest.fixture
def stage(tmp_path: pathlib.Path) -> Iterator[Stage]:
    with activity.stage(tmp_path) as stage:
        yield stage


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
