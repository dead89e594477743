"""No container waits while another one's file has its inode locked.

A tenant's process that has a ledger's descriptor, by a socket, may write to it for as long as it
likes, also after the ledger's own container has ended. The kernel keeps a removal of the file
waiting meanwhile.
"""

import contextlib
import dataclasses
import pathlib
import threading
from collections.abc import Callable, Iterator

import pytest

from gpustack.adapters import mapped
from gpustack.adapters.mount_helper import MountHelper
from gpustack.adapters.systemd import DescriptorStore
from gpustack.agent.containers.held_files import HeldFiles
from gpustack.agent.containers.limits_files import LimitsFiles, LimitsFilesError
from gpustack.agent.mounts.share_mounts import ShareMounts
from gpustack.wire.mount_request import FOLDER
from tests.agent import inode_lock
from tests.agent.mounts.namespace import SHARE, UID, alone, helper, on_a_tmpfs
from tests.waiting import wait_until


def _ends_while_written(ledger: pathlib.Path, step: Callable[[], object]) -> bool:
    """Say whether a step comes to its end while a tenant writes to a ledger."""
    thread = threading.Thread(target=step)
    with inode_lock.held(ledger, alone=True):
        thread.start()
        thread.join(5)
        ended = not thread.is_alive()
    thread.join()
    return ended


def _damage(ledger: pathlib.Path) -> None:
    with ledger.open("r+b") as file:
        file.write(bytes(4096))


@contextlib.contextmanager
def _files(state: pathlib.Path, mounting: MountHelper | None = None) -> Iterator[LimitsFiles]:
    held = HeldFiles(DescriptorStore())
    yield LimitsFiles(
        state / FOLDER,
        context_bytes=0,
        may_run=lambda *_: False,
        held=held,
        mounts=ShareMounts(mounting),
    )
    held.close()


def test_the_end_of_a_pod_waits_for_no_tenants_write(tmp_path: pathlib.Path) -> None:
    def body(files: LimitsFiles, folder: pathlib.Path) -> None:
        assert _ends_while_written(folder / "ledger", lambda: files.remove(UID))
        assert files.pods() == frozenset()
        assert files.held.count == 0

    on_a_tmpfs(tmp_path, body)


def test_a_start_waits_for_no_write_to_a_damaged_ledger(tmp_path: pathlib.Path) -> None:
    def body(files: LimitsFiles, folder: pathlib.Path) -> None:
        _damage(folder / "ledger")
        assert _ends_while_written(folder / "ledger", lambda: files.prepare(UID, SHARE, None))
        assert files.differing(UID, SHARE, None) == ()
        assert files.held.count == 3

    on_a_tmpfs(tmp_path, body)


def test_what_systemd_has_kept_keeps_no_unmounted_tmpfs(tmp_path: pathlib.Path) -> None:
    """An agent that has just started was given the descriptors, and has looked at no folder."""

    def body(files: LimitsFiles, folder: pathlib.Path) -> None:
        received = tuple(mapped.open_for_writing(path) for path in folder.iterdir())
        held = files.held = HeldFiles(DescriptorStore(received=received))
        assert held.count == 3
        files.remove(UID)
        held.look(())
        assert held.count == 0

    on_a_tmpfs(tmp_path, body)


def test_a_start_waits_for_no_write_to_a_ledger_on_the_disk(tmp_path: pathlib.Path) -> None:
    with _files(tmp_path) as files:
        folder = files.prepare(UID, SHARE, None)
        _damage(folder / "ledger")
        assert _ends_while_written(folder / "ledger", lambda: files.prepare(UID, SHARE, None))
        assert files.differing(UID, SHARE, None) == ()
        assert files.held.count == 3
        wait_until(lambda: list(folder.parent.iterdir()) == [folder])


def test_a_new_tmpfs_waits_for_no_write_to_the_disk(tmp_path: pathlib.Path) -> None:
    """An earlier agent made the files on the disk."""

    def body() -> None:
        with _files(tmp_path) as earlier:
            folder = earlier.prepare(UID, SHARE, None)
        _damage(folder / "ledger")
        with helper(tmp_path) as mounting, _files(tmp_path, mounting) as files:
            assert _ends_while_written(folder / "ledger", lambda: files.prepare(UID, SHARE, None))
            assert folder.is_mount()

    alone(body)


def test_few_old_folders_wait_for_a_write_in_one_thread(tmp_path: pathlib.Path) -> None:
    """A container that starts again and again fills no disk; another one's start is served."""
    refused, before = threading.Event(), _removing_threads()

    def starts(files: LimitsFiles, ledger: pathlib.Path) -> None:
        for _ in range(8):
            files.prepare(UID, SHARE, None)
            _damage(ledger)
        with pytest.raises(LimitsFilesError, match="8 earlier folders of it can't be removed yet"):
            files.prepare(UID, SHARE, None)
        refused.set()
        files.prepare(UID, dataclasses.replace(SHARE, name="c1"), None)

    with _files(tmp_path) as files:
        folder = files.prepare(UID, SHARE, None)
        _damage(folder / "ledger")
        assert _ends_while_written(folder / "ledger", lambda: starts(files, folder / "ledger"))
        assert refused.is_set()
        assert _removing_threads() == before + 1
        wait_until(lambda: len(list(folder.parent.iterdir())) == 2)
        files.prepare(UID, SHARE, None)
        assert files.differing(UID, SHARE, None) == ()


def _removing_threads() -> int:
    return sum(each.name == "old folders" for each in threading.enumerate())
