"""Files in their form cost one look in ten; a changed one is seen at the next look."""

import os
import pathlib
from collections.abc import Callable

import pytest

from gpustack.adapters.systemd import DescriptorStore
from gpustack.agent.containers.held_files import HeldFiles
from gpustack.agent.containers.limits_files import LimitsFiles
from gpustack.agent.mounts.share_mounts import ShareMounts
from tests.agent.mounts.namespace import SHARE, UID, on_a_tmpfs


def _looks(held: HeldFiles, folder: pathlib.Path, count: int) -> list[bool]:
    return [held.look([folder])[folder] for _ in range(count)]


def test_a_ledger_as_it_was_made_is_due_once_in_ten_looks(tmp_path: pathlib.Path) -> None:
    def body(files: LimitsFiles, folder: pathlib.Path) -> None:
        assert _looks(files.held, folder, 20) == [True, *[False] * 9] * 2

    on_a_tmpfs(tmp_path, body)


@pytest.mark.parametrize(
    "change",
    [
        lambda ledger: ledger.chmod(0o4755),
        lambda ledger: os.truncate(ledger, 4096),
        lambda ledger: os.chown(ledger, 1000, 0),
        lambda ledger: ledger.unlink(),
    ],
    ids=["mode", "size", "owner", "removed"],
)
def test_a_changed_ledger_is_due_at_the_next_look(
    tmp_path: pathlib.Path, change: Callable[[pathlib.Path], None]
) -> None:
    def body(files: LimitsFiles, folder: pathlib.Path) -> None:
        assert _looks(files.held, folder, 2) == [True, False]
        change(folder / "ledger")
        assert _looks(files.held, folder, 1) == [True]

    on_a_tmpfs(tmp_path, body)


def test_a_ledger_on_a_disk_is_due_at_each_look(tmp_path: pathlib.Path) -> None:
    """Its tenant can have the kernel drop it from memory, and a look reads no disk."""
    held = HeldFiles(DescriptorStore())
    files = LimitsFiles(
        tmp_path, context_bytes=0, may_run=lambda *_: False, held=held, mounts=ShareMounts(None)
    )
    folder = files.prepare(UID, SHARE, None)
    assert _looks(held, folder, 12) == [True] * 12
    held.close()
