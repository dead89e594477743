"""What a tenant does to the form and the locks of its files takes a bounded part of the host."""

import contextlib
import itertools
import mmap
import os
import pathlib
import subprocess
import threading
from collections.abc import Iterator, Mapping

import pytest

from gpustack.adapters import mapped
from gpustack.wire.mapped import ledger, two_slot_page
from gpustack.wire.mapped.limits import DeviceLimit, Limits
from tests.agent import inode_lock

A = "GPU-00000000-0000-0000-0000-00000000000a"


def _ledger(folder: pathlib.Path) -> pathlib.Path:
    path = folder / "ledger"
    mapped.create_ledger(path, [A])
    return path


def test_a_ledger_with_too_many_locks_takes_a_bounded_time(tmp_path: pathlib.Path) -> None:
    path = _ledger(tmp_path)
    with path.open("r+b") as file:
        for index in range(ledger.SLOTS):
            os.pwrite(file.fileno(), b"x", ledger.slot_offset(index))
    assert mapped.read_ledger(path).slots == ()
    looks = itertools.count()
    with pytest.raises(mapped.LockedLedgerError, match="too many locks"):
        mapped.read_ledger(path, clock=lambda: 0.013 * next(looks))
    assert next(looks) < 10


def test_a_ledger_that_is_cut_off_while_it_is_read_is_damaged(tmp_path: pathlib.Path) -> None:
    path = _ledger(tmp_path)
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), b"x", ledger.slot_offset(0))

    def cut() -> float:
        """Cut it off when the locks are looked up, after its first read."""
        os.truncate(path, 100)
        return 0.0

    with pytest.raises(two_slot_page.LayoutError, match="ends after 100 bytes"):
        mapped.read_ledger(path, clock=cut)


def _restore(path: pathlib.Path) -> Mapping[str, str] | None:
    descriptor = mapped.open_for_writing(path)
    try:
        return mapped.restore(descriptor, mapped.FORMS[path.name])
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        (("chmod", "4755"), {"mode": "4755, is 0666 again"}),
        (("chmod", "0600"), {"mode": "0600, is 0666 again"}),
        (
            ("truncate", "--size=64MiB"),
            {"size": f"67108864 bytes, {ledger.FILE_BYTES} on the disk, is SIZE bytes again"},
        ),
        (
            ("fallocate", "--length=64MiB"),
            {"size": "67108864 bytes, 67108864 on the disk, is SIZE bytes again"},
        ),
        (
            ("fallocate", "--keep-size", "--length=64MiB"),
            {"size": "SIZE bytes, 67108864 on the disk, is SIZE bytes again"},
        ),
    ],
)
def test_what_a_tenant_changes_of_its_ledger_is_restored_and_named(
    tmp_path: pathlib.Path, command: tuple[str, ...], changed: Mapping[str, str]
) -> None:
    path = _ledger(tmp_path)
    before, content = path.stat(), path.read_bytes()
    assert _restore(path) == {}
    subprocess.run([*command, path], check=True)
    sized = {key: text.replace("SIZE", str(ledger.FILE_BYTES)) for key, text in changed.items()}
    assert _restore(path) == sized
    after = path.stat()
    for field in ("st_mode", "st_uid", "st_gid", "st_size", "st_blocks"):
        assert getattr(after, field) == getattr(before, field), field
    assert path.read_bytes() == content


def test_a_ledger_of_another_owner_is_restored_all_the_same(
    tmp_path: pathlib.Path,
) -> None:
    path = _ledger(tmp_path)
    os.chown(path, 1000, 2000)
    owner = {"owner": "1000:2000 and stays so"}
    assert _restore(path) == owner
    path.chmod(0o4755)
    assert _restore(path) == {**owner, "mode": "4755, is 0666 again"}
    assert (path.stat().st_uid, path.stat().st_gid) == (1000, 2000)


@pytest.mark.parametrize("size_bytes", [0, 100])
def test_a_ledger_that_was_cut_off_has_all_of_its_blocks_again(
    tmp_path: pathlib.Path, size_bytes: int
) -> None:
    path = _ledger(tmp_path)
    before, content = path.stat(), path.read_bytes()
    os.truncate(path, size_bytes)
    with pytest.raises(two_slot_page.LayoutError):
        mapped.read_ledger(path)
    assert _restore(path)
    assert path.stat().st_blocks == before.st_blocks
    assert path.read_bytes() == content[:size_bytes].ljust(before.st_size, b"\0")


def test_a_removed_file_has_no_form(tmp_path: pathlib.Path) -> None:
    path = _ledger(tmp_path)
    descriptor = mapped.open_for_writing(path)
    path.unlink()
    assert mapped.restore(descriptor, mapped.FORMS["ledger"]) is None
    os.close(descriptor)


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_only_a_regular_file_is_opened(tmp_path: pathlib.Path, kind: str) -> None:
    path = tmp_path / "limits"
    if kind == "link":
        path.symlink_to(_ledger(tmp_path))
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(OSError, match=str(path)):
        mapped.open_for_writing(path)
    with pytest.raises(OSError, match=r"\[Errno"):
        mapped.read_limits(path)


def _limits(folder: pathlib.Path) -> pathlib.Path:
    mapped.create_limits(folder / "limits", Limits(devices=()))
    return folder / "limits"


def _value(percent: int) -> Limits:
    limit = DeviceLimit(
        uuid=A, memory_bytes=1, compute_percent=percent, burst_percent=100, context_bytes=0
    )
    return Limits(devices=(limit,))


def test_a_page_is_published_while_its_tenant_reads_it_for_long(tmp_path: pathlib.Path) -> None:
    path = _limits(tmp_path)
    with inode_lock.held(path, alone=False):
        published = threading.Thread(target=mapped.publish_limits, args=(path, _value(7)))
        published.start()
        published.join(10)
        assert not published.is_alive()
        assert mapped.read_limits(path) == _value(7)


def test_a_page_that_is_cut_off_on_the_way_is_an_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cut(mmap.mmap):
        def __init__(self, *_: int) -> None:
            os.truncate(path, 0)

    path = _limits(tmp_path)
    with monkeypatch.context() as late:
        late.setattr(mmap, "mmap", Cut)
        with pytest.raises(OSError, match="Bad address"):
            mapped.publish_limits(path, _value(7))
    path.unlink()
    path, system = _limits(tmp_path), mmap.mmap

    def cut(*arguments: int) -> mmap.mmap:
        os.truncate(path, 0)
        return system(*arguments)

    monkeypatch.setattr(mmap, "mmap", cut)
    with pytest.raises(two_slot_page.LayoutError, match="greater than file size"):
        mapped.publish_limits(path, _value(7))


def test_a_ledger_that_is_not_in_memory_is_read_once_it_is_loaded(tmp_path: pathlib.Path) -> None:
    path = _ledger(tmp_path)
    descriptor = mapped.open_for_writing(path)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        with pytest.raises(mapped.BusyLedgerError, match=r"would wait|not in memory"):
            mapped.read_ledger(path)
        mapped.load(descriptor)
        # the kernel reads ahead on its own time
        while True:
            with contextlib.suppress(mapped.BusyLedgerError):
                mapped.read_ledger(path)
                break
    finally:
        os.close(descriptor)


@pytest.fixture
def xfs(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder on XFS, where a read waits for a write."""
    image, folder = tmp_path / "image", tmp_path / "xfs"
    image.touch()
    os.truncate(image, 320 << 20)  # mkfs.xfs makes none that is smaller
    folder.mkdir()
    try:
        subprocess.run(["mkfs.xfs", "-q", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, folder], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no XFS here: {error}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_ledger_on_xfs_is_not_read_while_its_tenant_writes(xfs: pathlib.Path) -> None:
    path = _ledger(xfs)
    with inode_lock.held(path, alone=True), pytest.raises(mapped.BusyLedgerError):
        mapped.read_ledger(path)
    assert mapped.read_ledger(path).slots == ()
