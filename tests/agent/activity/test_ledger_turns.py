"""A tenant's slow ledgers keep no others waiting, and make no round of looks long."""

import os
import pathlib
import time

import pytest

from gpustack.adapters import mapped
from gpustack.agent.activity.ledgers import Ledgers
from gpustack.agent.activity.shares import Share
from gpustack.wire.mapped import ledger
from tests.agent.activity.activity import Stage

MIB = 1 << 20
_SECOND_NS = 1_000_000_000


class _Node:
    """Shares whose ledgers take their time, of a clock that no machine makes slower."""

    def __init__(self, slow: int, others: int) -> None:
        self.now_ns = 0
        self.cpu_seconds = 0.0
        self.ledgers = Ledgers(lambda: self.now_ns, lambda: self.cpu_seconds)
        self.costs = {f"slow{number}": 0.05 for number in range(slow)}
        self.costs |= {f"other{number}": 0.0003 for number in range(others)}
        self.shares = [
            Share(
                owner=(name, "c0"), namespace="team", pod=name, uuids=(), elastic=frozenset(),
                memory_bytes=0, folder=pathlib.Path(),
            )
            for name in self.costs
        ]  # fmt: skip

    def round(self, *, slow: bool = True) -> set[str]:
        """Let a second pass, and return whose ledgers were read; no round is long."""
        self.now_ns += _SECOND_NS
        began, read = self.cpu_seconds, set()
        for share, is_turn in self.ledgers.turns(self.shares, slow=slow):
            if is_turn:
                read.add(share.pod)
                self.cpu_seconds += self.costs[share.pod]
        assert self.cpu_seconds - began < 0.3
        assert read == {share.pod for share in self.shares if self.ledgers.had_turn(share)}
        return read


def test_slow_ledgers_make_no_round_long_and_keep_no_other_waiting() -> None:
    node = _Node(slow=90, others=10)
    others = {name for name in node.costs if name.startswith("other")}
    for _ in range(70):  # until each slow one was so twice
        node.round()
    for _ in range(100):
        seen = [node.round() for _ in range(90)]
        assert all(others <= each for each in seen)
        assert set.union(*seen) == node.costs.keys(), "a slow one is never read"
        assert node.round(slow=False) == others
    # those that are slow no longer are read with the others in the end
    node.costs = dict.fromkeys(node.costs, 0.0003)
    node.now_ns += 600 * _SECOND_NS
    assert node.round(slow=False) == node.costs.keys()


def test_ledgers_that_do_not_fit_a_round_take_turns() -> None:
    node = _Node(slow=0, others=90)
    node.costs = dict.fromkeys(node.costs, 0.009)
    rounds = [node.round() for _ in range(8)]
    assert set.union(*rounds) == node.costs.keys()


def test_one_long_reading_makes_no_ledger_slow() -> None:
    node = _Node(slow=1, others=1)
    node.round()
    assert node.round(slow=False) == node.costs.keys()
    assert node.round(slow=False) == {"other0"}
    assert node.round() == node.costs.keys()


def test_a_container_that_is_gone_is_slow_no_longer() -> None:
    node = _Node(slow=1, others=0)
    for _ in range(2):
        node.round()
    assert node.round(slow=False) == set()
    node.ledgers.forget(frozenset())
    assert node.round(slow=False) == node.costs.keys()


def test_ledgers_whose_locks_take_long_make_no_look_late(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, slow = mapped.read_open_ledger, []

    def slowly(fd: int) -> tuple[ledger.LedgerReading, bytes, tuple[int, ...]]:
        if "uid-slow" in os.readlink(f"/proc/self/fd/{fd}"):
            slow.append(fd)
            until = time.thread_time() + 0.045  # below the bound of a ledger's own
            while time.thread_time() < until:
                pass
        return read(fd)

    monkeypatch.setattr(mapped, "read_open_ledger", slowly)
    names = [*(f"slow{number}" for number in range(9)), "other"]
    for name in names:
        stage.process(stage.share(name, burst=100), memory_bytes=300 * MIB)
    for look in range(12):
        stage.now_ns += 1_000_000_000
        for name in names:
            stage.write_ledger(name, used_bytes=300 * MIB, last_want_ns=1)
        for sample in (stage.sampler.look, stage.sampler.decide_bursts):
            slow.clear()
            sample()
            assert len(slow) < 5
            # one that isn't read counts as wanting its card, and is accused of nothing
            assert not any(stage.card(name).burst_allowed for name in names)
            assert all(stage.card(name).unaccounted_bytes == 0 for name in names)
        assert look < 8 or ("uid-other", "other") in stage.sampler._read
    assert stage.events == []
