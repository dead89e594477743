"""A tenant that harms its ledger or fills its processes' maps harms no other tenant."""

import os
import pathlib
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import Any, NoReturn

import pytest

from gpustack.adapters import mapped
from gpustack.adapters.kube import ObjectEvent
from gpustack.adapters.memory_maps import MappedFile
from gpustack.agent.activity.shares import Shares
from gpustack.agent.identification.process_owners import Owner
from gpustack.agent.violations.isolation_violations import IsolationViolations
from gpustack.wire.mapped import ledger
from tests import open_files
from tests.agent import inode_lock
from tests.agent.activity.activity import Stage
from tests.agent.host import CORE, Host

MIB = 1 << 20


def test_a_ledger_that_fills_the_disk_is_cut_and_reported(stage: Stage) -> None:
    stage.share("one")
    ledger = stage.folders.path("uid-one", "one") / "ledger"
    subprocess.run(["fallocate", "--keep-size", "--length", "64MiB", ledger], check=True)
    stage.sampler.look()
    assert ledger.stat().st_blocks * 512 < MIB
    assert [each.reason for each in stage.events] == ["LedgerDamaged"]


@pytest.mark.parametrize(
    "command",
    [
        ("chmod", "4755"),
        ("truncate", "--size=+64MiB"),
        ("truncate", "--size=0"),
    ],
)
def test_a_ledger_that_its_tenant_changes_is_restored_within_two_seconds(
    host: Host, command: tuple[str, ...]
) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    host.cri.run(pod["metadata"]["uid"], "c0")
    ledger = host.folder(pod, "c0") / "ledger"
    before = ledger.stat()
    began = time.monotonic()
    subprocess.run([*command, ledger], check=True)

    def is_restored() -> bool:
        after = ledger.stat()
        return all(
            getattr(after, field) == getattr(before, field)
            for field in ("st_mode", "st_uid", "st_gid", "st_size")
        )

    host.wait_until(is_restored)
    assert time.monotonic() - began < 2
    host.wait_until(lambda: bool(host.api.events()))
    (event,) = host.api.events()
    assert event["reason"] == "LedgerDamaged"
    assert event["type"] == "Warning"
    assert "container c0: its ledger" in event["message"]


def test_an_agent_that_has_ended_holds_no_file_of_a_share(host: Host) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    folder = host.folder(pod, "c0")
    # held against leases, and kept for the next look
    host.wait_until(lambda: open_files.below(folder).count(f"{folder}/ledger") == 2)
    host.stop_agent()
    assert open_files.below(folder) == []


def test_samples_do_not_wait_for_a_tenants_long_write(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The kernel keeps a change of a file waiting while a write to it is under way.
    written, restore = threading.Event(), mapped.restore
    stage.share("one")
    folder = stage.folders.path("uid-one", "one")
    (folder / "ledger").chmod(0o4755)

    def wait(descriptor: int, form: mapped.FileForm) -> Mapping[str, str] | None:
        assert written.wait(30)
        return restore(descriptor, form)

    monkeypatch.setattr(mapped, "restore", wait)
    for _ in range(2):
        stage.now_ns += 11_000_000_000
        stage.sampler.look()
        assert mapped.read_activity(folder / "activity").sampled_ns == stage.now_ns
    assert stage.events == []
    written.set()
    while not stage.events:
        stage.sampler.look()
    assert [each.reason for each in stage.events] == ["LedgerDamaged"]


def _said(stage: Stage) -> list[str]:
    return [str(each.message).removeprefix("container ") for each in stage.events]


def test_a_tenants_long_write_keeps_no_other_ledger_from_being_restored(stage: Stage) -> None:
    ledgers = []
    for name in ("one", "two", "three"):
        stage.share(name)
        ledgers.append(stage.folders.path(f"uid-{name}", name) / "ledger")
    stage.sampler.look()
    for path in ledgers:
        path.chmod(0o4755)
    with inode_lock.held(ledgers[0], alone=True), inode_lock.held(ledgers[1], alone=True):
        for _ in range(3):
            stage.now_ns += 1_000_000_000
            stage.sampler.look()
        assert ledgers[2].stat().st_mode & 0o7777 == 0o666
        assert _said(stage) == ["three: its ledger's mode was 4755, is 0666 again"]
        stage.now_ns += 60_000_000_000  # as after a pause of the whole host
        stage.sampler.look()
        assert len(stage.events) == 1
        for _ in range(10):
            stage.now_ns += 1_000_000_000
            stage.sampler.look()
        assert [text.split(": a process")[0] for text in sorted(_said(stage))] == [
            "one: mode and size of its ledger can't be restored",
            "three: its ledger's mode was 4755, is 0666 again",
            "two: mode and size of its ledger can't be restored",
        ]
    while any(path.stat().st_mode & 0o7777 != 0o666 for path in ledgers):
        stage.sampler.look()


def test_samples_are_published_while_a_tenant_reads_its_page_for_long(stage: Stage) -> None:
    stage.share("one")
    page = stage.folders.path("uid-one", "one") / "activity"
    stage.sampler.look()
    stage.now_ns += 11_000_000_000
    with inode_lock.held(page, alone=False):
        looks = threading.Thread(target=stage.sampler.look)
        looks.start()
        looks.join(10)
        assert mapped.read_activity(page).sampled_ns == stage.now_ns
    looks.join()


def test_each_kind_of_change_is_reported_once(stage: Stage) -> None:
    stage.share("one")
    ledger = stage.folders.path("uid-one", "one") / "ledger"
    for _ in range(3):
        for command in (("chmod", "4755"), ("chown", "7:7"), ("truncate", "--size=+1")):
            subprocess.run([*command, ledger], check=True)
        stage.sampler.look()
    assert [text.split(" was ")[0] for text in _said(stage)] == [
        "one: its ledger's owner",
        "one: its ledger's mode",
        "one: its ledger's size",
    ]
    assert stage.escapes.containers["LedgerDamaged"] == 1


def test_a_ledger_with_too_many_locks_is_left_alone_for_a_while(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(descriptor: int) -> NoReturn:
        asked.append(descriptor)
        raise mapped.LockedLedgerError("ledger has too many locks")

    stage.share("one", burst=100)
    monkeypatch.setattr(mapped, "read_open_ledger", refuse)
    stage.sampler.look()
    stage.sampler.decide_bursts()
    stage.sampler.look()
    assert len(asked) == 1
    assert [each.reason for each in stage.events] == ["LedgerDamaged"]
    stage.now_ns += 10_000_000_000
    stage.sampler.look()
    assert len(asked) == 2


def test_a_ledger_that_a_read_would_wait_for_keeps_its_last_reading(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> NoReturn:
        raise mapped.BusyLedgerError("a read of the ledger would wait")

    container = stage.share("one", burst=100)
    stage.process(container, memory_bytes=300 * MIB)
    stage.write_ledger("one", used_bytes=300 * MIB)
    stage.sampler.look()
    before = stage.card("one").unaccounted_bytes
    with monkeypatch.context() as waiting:
        waiting.setattr(mapped, "read_ledger_head", busy)
        for _ in range(3):
            stage.now_ns += 11_000_000_000
            stage.sampler.look()
            stage.sampler.decide_bursts()
    assert stage.card("one").unaccounted_bytes == before
    assert stage.events == []
    stage.write_ledger("one", used_bytes=100 * MIB)
    for _ in range(3):
        stage.now_ns += 11_000_000_000
        stage.sampler.look()
    assert stage.card("one").unaccounted_bytes > before


class _SlowViolations(IsolationViolations):
    """Takes 0.05 s to read a process's maps."""

    read = 0

    def __init__(self, *args: Any, **names: Any) -> None:
        super().__init__(*args, clock=lambda: 0.05 * self.read, **names)

    def _mapped(self, pid: int, owner: Owner) -> frozenset[MappedFile] | None:
        self.read += 1
        return super()._mapped(pid, owner)


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
    (share,) = Shares(stage.records, stage.folders).read()
    for _ in range(10):
        before = violations.read
        violations.look_at(share, tuple(pids))
        assert 0 < violations.read - before < 5
    assert [each.reason for each in events] == [reason]


def test_maps_that_do_not_come_keep_no_other_container_waiting(stage: Stage) -> None:
    """As where the server of a volume leaves a process's mmap without an answer."""
    pid = stage.process(stage.share("one"), memory_bytes=MIB)
    maps = stage.proc / str(pid) / "maps"
    text = maps.read_text()
    maps.unlink()
    os.mkfifo(maps)
    stage.process(stage.share("two"), memory_bytes=MIB, maps=())

    def look() -> None:
        for _ in range(3):
            stage.sampler.look()

    looks = threading.Thread(target=look, daemon=True)
    looks.start()
    looks.join(5)
    try:
        assert not looks.is_alive()
        assert [each.name for each in stage.events] == ["two"]
    finally:
        maps.write_text(text)
    for thread in threading.enumerate():
        if thread.name == "maps":
            thread.join()
    stage.sampler.look()
    assert [each.name for each in stage.events] == ["two"]


def test_a_ledger_of_invented_cards_is_reported_and_not_kept(stage: Stage) -> None:
    stage.share("one", burst=100)
    ledger_file = stage.folders.path("uid-one", "one") / "ledger"
    stage.sampler.look()
    kept = len(stage.sampler._claims._readings)
    for number in range(50):
        with ledger_file.open("r+b") as file:
            file.seek(ledger.CARDS_OFFSET)
            file.write(number.to_bytes(16, "big"))
        stage.sampler.look()
        stage.sampler.decide_bursts()
    assert len(stage.sampler._claims._readings) == kept
    assert [each.reason for each in stage.events] == ["LedgerDamaged"]
