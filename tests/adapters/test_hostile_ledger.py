"""A ledger that its tenant fills with locks, or makes grow, takes a bounded part of the host."""

import itertools
import os
import pathlib
import subprocess

import pytest

from gpustack.adapters import mapped
from gpustack.wire.mapped import ledger, two_slot_page

A = "GPU-00000000-0000-0000-0000-00000000000a"


def test_a_ledger_with_too_many_locks_takes_a_bounded_time(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger"
    mapped.create_ledger(path, [A])
    with path.open("r+b") as file:
        for index in range(ledger.SLOTS):
            os.pwrite(file.fileno(), b"x", ledger.slot_offset(index))
    assert mapped.read_ledger(path).slots == ()
    looks = itertools.count()
    with pytest.raises(mapped.LockedLedgerError, match="too many locks"):
        mapped.read_ledger(path, clock=lambda: 0.013 * next(looks))
    assert next(looks) < 10


@pytest.mark.parametrize("size", [(), ("--keep-size",)])
def test_a_ledger_that_takes_more_of_the_disk_is_cut(
    tmp_path: pathlib.Path, size: tuple[str, ...]
) -> None:
    path = tmp_path / "ledger"
    mapped.create_ledger(path, [A])
    before = path.read_bytes()
    subprocess.run(["fallocate", *size, "--length", "64MiB", path], check=True)
    with pytest.raises(two_slot_page.LayoutError):
        mapped.read_ledger(path)
    mapped.cut_ledger(path)
    assert path.read_bytes() == before
    assert path.stat().st_blocks * 512 < 1 << 20
    assert mapped.read_ledger(path).slots == ()
