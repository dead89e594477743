"""A crash at each point of each write: what counted is there, and nothing else is."""

import itertools
import logging
import pathlib
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from gpustack.adapters import checkpoint
from gpustack.adapters.checkpoint import CheckpointError, CheckpointFile
from tests.adapters.checkpoint.power_cuts import Disk, files_after

Records = dict[str, Any]

CHANGES = 40
# A program that puts one record after the other, and says so after each.
WRITER = """
import pathlib, sys
from gpustack.adapters.checkpoint import CheckpointFile
file = CheckpointFile(pathlib.Path(sys.argv[1]))
file.read()
number = 0
while True:
    file.put({"uid": str(number % 30), "number": number, "ids": "x" * 3000})
    print(number, flush=True)
    number += 1
"""


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Let a file of a few records be made anew, as the large ones of the product are."""
    monkeypatch.setattr(checkpoint, "_LEAST_BYTES", 300)
    caplog.set_level(logging.CRITICAL)  # thousands of torn lines


def changes(seed: int, count: int = CHANGES) -> Iterator[tuple[str, Records | None]]:
    """Yield changes at random: a UID, and its record or None where it goes."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    for number in range(count):
        uid = f"pod-{draw.randrange(4)}"
        gone = draw.random() < 0.25
        yield uid, None if gone else {"uid": uid, "number": number, "ids": "x" * draw.randrange(60)}


def changed(records: Records, uid: str, record: Records | None) -> Records:
    """Return the records after a change."""
    rest = {key: each for key, each in records.items() if key != uid}
    return rest if record is None else {**rest, uid: record}


def carry_out(file: CheckpointFile, uid: str, record: Records | None) -> None:
    """Make a change."""
    if record is None:
        file.remove(uid)
    else:
        file.put(record)


def read(path: pathlib.Path, content: bytes | None) -> Records:
    """Return what an agent reads from a file of this content."""
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
    return CheckpointFile(path, boot_id="b").read()


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_loses_no_change_that_counted_and_makes_none(
    tmp_path: pathlib.Path, seed: int
) -> None:
    path, found = tmp_path / "c.json", tmp_path / "found.json"
    disk = Disk()
    file = CheckpointFile(path, boot_id="b")
    stood: list[tuple[int, Records]] = [(0, {})]  # after so many calls: the records that count
    with disk.recording():
        file.renew()
        stood.append((len(disk.calls), {}))
        for uid, record in changes(seed):
            carry_out(file, uid, record)
            stood.append((len(disk.calls), changed(stood[-1][1], uid, record)))
    made = sum(call.name == "rename" for call in disk.calls)
    assert 3 <= made <= CHANGES / 2
    states = 0
    for (begun, before), (done, after) in itertools.pairwise(stood):
        for count in range(begun, done + 1):
            for content in files_after(disk.calls[:count], str(path)):
                records = read(found, content)
                assert records == after or (count < done and records == before), content
                states += 1
    assert states > 2000


@pytest.mark.parametrize("seed", range(4))
def test_a_record_goes_on_from_what_any_crash_left(tmp_path: pathlib.Path, seed: int) -> None:
    path, found = tmp_path / "c.json", tmp_path / "found.json"
    disk = Disk()
    with disk.recording():
        file = CheckpointFile(path, boot_id="b")
        for uid, record in changes(seed):
            carry_out(file, uid, record)
    draw = random.Random(seed)  # noqa: S311 - no secret
    for count in draw.sample(range(len(disk.calls)), k=30):
        content = draw.choice(list(files_after(disk.calls[:count], str(path))))
        before = read(found, content)
        again = CheckpointFile(found, boot_id="b")
        again.read()
        again.put({"uid": "new"})
        assert CheckpointFile(found, boot_id="b").read() == {**before, "new": {"uid": "new"}}


@pytest.mark.parametrize("stays_full", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_a_disk_that_refuses_any_call_changes_nothing(
    tmp_path: pathlib.Path, seed: int, stays_full: bool
) -> None:
    whole = Disk()
    with whole.recording():
        file = CheckpointFile(tmp_path / "all.json", boot_id="b")
        for uid, record in changes(seed, count=16):
            carry_out(file, uid, record)
    for refused in range(whole.asked):
        path = tmp_path / f"{refused}.json"
        _change_on(path, Disk(refuses_at=refused, stays_full=stays_full), seed)


def _change_on(path: pathlib.Path, disk: Disk, seed: int) -> None:
    """Make the changes until one is refused, and then all from that on, with a disk that works."""
    file = CheckpointFile(path, boot_id="b")
    records: Records = {}
    rest = list(changes(seed, count=16))
    with disk.recording():
        while rest:
            try:
                carry_out(file, *rest[0])
            except CheckpointError:
                break
            records = changed(records, *rest.pop(0))
    after = changed(records, *rest[0])
    left = CheckpointFile(path, boot_id="b").read()
    # Behind a rename whose fsync fails, and where a change can't be taken back, its caller can't
    # know; an agent that dies now comes to know it.
    assert left in (records, after)
    for each in rest:
        carry_out(file, *each)
        records = changed(records, *each)
    assert CheckpointFile(path, boot_id="b").read() == records


def test_a_refused_change_is_taken_back(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "c.json"
    file = CheckpointFile(path, boot_id="b")
    file.put({"uid": "a"})
    text = path.read_bytes()
    for refused in (0, 1):  # the write, and its fsync
        with Disk(refuses_at=refused).recording(), pytest.raises(CheckpointError):
            file.put({"uid": "b"})
        assert path.read_bytes() == text
        file.renew()


@pytest.mark.parametrize("lines", [1, 7, 40, 150])
def test_a_killed_agent_has_lost_nothing_that_it_said(tmp_path: pathlib.Path, lines: int) -> None:
    path = tmp_path / "c.json"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        said = [int(writer.stdout.readline()) for _ in range(lines)]
        writer.kill()
        said += [int(rest) for rest in writer.stdout if rest.endswith("\n")]
    numbers = {record["number"] for record in CheckpointFile(path).read().values()}
    last = said[-1]
    assert numbers in (
        set(range(max(0, last - 29), last + 1)),
        set(range(max(0, last - 28), last + 2)),
    )
