"""Each share's files lie on a tmpfs of exactly their size, which outlives who mounted it."""

import errno
import os
import pathlib
import subprocess
from collections.abc import Callable, Iterator

import pytest

from gpustack.adapters import mapped
from gpustack.adapters.mount_helper import MountHelper
from gpustack.adapters.systemd import DescriptorStore
from gpustack.agent.containers.held_files import HeldFiles
from gpustack.agent.containers.limits_files import LimitsFiles, LimitsFilesError
from gpustack.agent.mounts.share_mounts import ShareMounts
from gpustack.wire.mount_request import FOLDER
from tests.agent.mounts.namespace import SHARE, UID, alone, helper


@pytest.fixture
def held() -> Iterator[HeldFiles]:
    held = HeldFiles(DescriptorStore())
    yield held
    held.close()


def _files(
    state: pathlib.Path,
    held: HeldFiles,
    mounting: MountHelper | None,
    may_run: Callable[[str, str], bool] = lambda *_: False,
) -> LimitsFiles:
    return LimitsFiles(
        state / FOLDER, context_bytes=0, may_run=may_run, held=held, mounts=ShareMounts(mounting)
    )


def _refusal(path: pathlib.Path, data: bytes, offset: int) -> int | None:
    with path.open("r+b", buffering=0) as file:
        try:
            os.pwrite(file.fileno(), data, offset)
        except OSError as error:
            return error.errno
    return None


def test_a_tenant_gets_no_byte_beyond_its_files(tmp_path: pathlib.Path, held: HeldFiles) -> None:
    def body() -> None:
        with helper(tmp_path) as mounting:
            folder = _files(tmp_path, held, mounting).prepare(UID, SHARE, None)
            assert folder.is_mount()
            assert {each.name for each in folder.iterdir()} == set(mapped.FORMS)
            ledger, size_bytes = folder / "ledger", mapped.FORMS["ledger"].size_bytes
            assert _refusal(ledger, b"x" * size_bytes, 0) is None
            assert _refusal(ledger, b"x", size_bytes) == errno.ENOSPC
            os.truncate(ledger, 1 << 40)
            assert _refusal(ledger, b"x", 1 << 30) == errno.ENOSPC
            with pytest.raises(OSError, match="No space left"):
                (folder / "more").touch()

    alone(body)


def test_a_tenant_pays_for_the_memory_that_it_uses(tmp_path: pathlib.Path, held: HeldFiles) -> None:
    """The kernel charges who touches a page first, until nobody has the file open.

    A tenant may keep the files of many ended pods open, and 512 MiB are the agent's.
    """

    def body() -> None:
        with helper(tmp_path) as mounting:
            files = _files(tmp_path, held, mounting)
            folder = files.prepare(UID, SHARE, None)
            assert _used_pages(folder) == len(mapped.FORMS)
            os.truncate(folder / "ledger", 0)
            held.look([folder])
            assert "ledger's size" in held.restore(folder)
            files.differing(UID, SHARE, None)
            assert _used_pages(folder) <= len(mapped.FORMS)
            last = mapped.FORMS["ledger"].size_bytes - 1
            assert _refusal(folder / "ledger", b"x", last) is None
            assert _used_pages(folder) <= len(mapped.FORMS) + 1

    alone(body)


def test_no_program_in_a_ledger_is_run(tmp_path: pathlib.Path, held: HeldFiles) -> None:
    def body() -> None:
        with helper(tmp_path) as mounting:
            ledger = _files(tmp_path, held, mounting).prepare(UID, SHARE, None) / "ledger"
            ledger.write_bytes(b"#!/bin/sh\nexit 0\n")
            ledger.chmod(0o4755)
            with pytest.raises(PermissionError):
                subprocess.run([ledger], check=False)
            flags = os.statvfs(ledger).f_flag
            assert flags & os.ST_NOSUID
            assert flags & os.ST_NODEV

    alone(body)


def test_good_files_stay_at_the_next_start(tmp_path: pathlib.Path, held: HeldFiles) -> None:
    def body() -> None:
        with helper(tmp_path) as mounting:
            files = _files(tmp_path, held, mounting)
            before = (files.prepare(UID, SHARE, None) / "ledger").stat()
            after = (files.prepare(UID, SHARE, None) / "ledger").stat()
            assert (before.st_dev, before.st_ino) == (after.st_dev, after.st_ino)

    alone(body)


@pytest.mark.parametrize("name", tuple(mapped.FORMS))
def test_a_damaged_file_is_made_anew_in_a_new_tmpfs(
    tmp_path: pathlib.Path, held: HeldFiles, name: str
) -> None:
    def body() -> None:
        with helper(tmp_path) as mounting:
            files = _files(tmp_path, held, mounting)
            folder = files.prepare(UID, SHARE, None)
            with (folder / name).open("r+b") as file:
                file.write(bytes(4096))
            files.prepare(UID, SHARE, None)
            assert folder.is_mount()
            assert held.count == 3
            assert files.differing(UID, SHARE, None) == ()
            assert _mounts_on(folder) == 1
            held.look([folder])
            held.restore(folder)
            assert _removed_but_open() == []

    alone(body)


def test_a_running_containers_damaged_ledger_stays(tmp_path: pathlib.Path, held: HeldFiles) -> None:
    def body() -> None:
        with helper(tmp_path) as mounting:
            folder = _files(tmp_path, held, mounting).prepare(UID, SHARE, None)
            before = (folder / "ledger").stat().st_dev
            (folder / "ledger").write_bytes(b"")
            running = _files(tmp_path, held, mounting, may_run=lambda *_: True)
            running.prepare(UID, SHARE, None)
            assert (folder / "ledger").stat().st_dev == before

    alone(body)


def test_a_boot_leaves_empty_folders_that_are_mounted_anew(
    tmp_path: pathlib.Path, held: HeldFiles
) -> None:
    def body() -> None:
        with helper(tmp_path) as mounting:
            files = _files(tmp_path, held, mounting)
            folder = files.prepare(UID, SHARE, None)
            mounting.remove(UID, SHARE.name)
            assert list(folder.iterdir()) == []
            assert files.prepare(UID, SHARE, None).is_mount()

    alone(body)


class Killed(BaseException):
    """The agent dies."""


@pytest.mark.parametrize("write", ["create_limits", "create_activity", "create_ledger"])
def test_an_agent_that_dies_between_mount_and_files_leaves_no_half(
    tmp_path: pathlib.Path, held: HeldFiles, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    def die(*_: object, **__: object) -> None:
        raise Killed

    def body() -> None:
        with helper(tmp_path) as mounting:
            with monkeypatch.context() as dying:
                dying.setattr(mapped, write, die)
                with pytest.raises(Killed):
                    _files(tmp_path, held, mounting).prepare(UID, SHARE, None)
            files = _files(tmp_path, held, mounting)
            folder = files.prepare(UID, SHARE, None)
            assert files.differing(UID, SHARE, None) == ()
            assert _mounts_on(folder) == 1

    alone(body)


def test_an_earlier_agents_folder_stays_while_its_files_are_good(
    tmp_path: pathlib.Path, held: HeldFiles
) -> None:
    def body() -> None:
        folder = _files(tmp_path, held, None).prepare(UID, SHARE, None)
        with helper(tmp_path) as mounting:
            files = _files(tmp_path, held, mounting)
            assert not files.prepare(UID, SHARE, None).is_mount()
            (folder / "limits").write_bytes(b"")
            assert files.prepare(UID, SHARE, None).is_mount()
            files.remove(UID)
            assert not folder.parent.exists()

    alone(body)


def test_a_container_keeps_its_file_when_the_pod_is_removed(
    tmp_path: pathlib.Path, held: HeldFiles
) -> None:
    def body() -> None:
        with helper(tmp_path) as mounting:
            files = _files(tmp_path, held, mounting)
            folder = files.prepare(UID, SHARE, None)
            inside = tmp_path / "inside"
            inside.touch()
            subprocess.run(["mount", "--bind", folder / "ledger", inside], check=True)
            files.remove(UID)
            assert files.pods() == frozenset()
            assert inside.stat().st_size == mapped.FORMS["ledger"].size_bytes
            assert _refusal(inside, b"x" * 4096, 0) is None

    alone(body)


def test_a_pod_whose_helper_is_away_is_kept_and_named(
    tmp_path: pathlib.Path, held: HeldFiles
) -> None:
    def body() -> None:
        with helper(tmp_path) as mounting:
            files = _files(tmp_path, held, mounting)
            folder = files.prepare(UID, SHARE, None)
        with pytest.raises(LimitsFilesError, match="journalctl --unit=gpustack-mount"):
            files.remove(UID)
        with pytest.raises(LimitsFilesError, match="set mount_socket, or unmount it"):
            _files(tmp_path, held, None).remove(UID)
        assert folder.is_mount()
        with pytest.raises(LimitsFilesError, match="journalctl --unit=gpustack-mount"):
            files.prepare(UID.replace("6", "7"), SHARE, None)
        with helper(tmp_path):
            files.remove(UID)
        assert not folder.exists()

    alone(body)


def test_a_mount_that_the_agent_does_not_see_is_an_error(
    tmp_path: pathlib.Path, held: HeldFiles
) -> None:
    def elsewhere() -> None:
        with helper(tmp_path) as mounting:
            files = _files(tmp_path, held, mounting)
            with pytest.raises(LimitsFilesError, match="that the agent doesn't see"):
                alone(lambda: _prepare(files))

    alone(elsewhere)


def _prepare(files: LimitsFiles) -> None:
    files.prepare(UID, SHARE, None)


def _used_pages(folder: pathlib.Path) -> int:
    found = os.statvfs(folder)
    return (found.f_blocks - found.f_bfree) * found.f_frsize // os.sysconf("SC_PAGE_SIZE")


def _mounts_on(folder: pathlib.Path) -> int:
    lines = pathlib.Path("/proc/thread-self/mountinfo").read_text().splitlines()
    return sum(line.split()[4] == str(folder) for line in lines)


def _removed_but_open() -> list[str]:
    links = [os.readlink(each) for each in pathlib.Path("/proc/self/fd").iterdir()
             if each.is_symlink()]  # fmt: skip
    return [link for link in links if link.endswith("ledger (deleted)")]
