"""The files of containers are held open, as many as the unit allows, and keep their form."""

import os
import pathlib
import threading
from collections.abc import Iterator

import pytest

from gpustack.adapters import mapped
from gpustack.adapters.systemd import DescriptorStore
from gpustack.agent.containers.held_files import MOST_FILES, HeldFiles
from gpustack.agent.containers.limits_files import LimitsFiles
from gpustack.agent.mounts.share_mounts import ShareMounts
from gpustack.model.placement import ContainerPlacement
from gpustack.wire.mapped.activity import Activity
from gpustack.wire.mapped.limits import DeviceLimit, Limits
from tests import open_files
from tests.fakes.nvml import card

_CARD = card(1).uuid
_LIMIT = DeviceLimit(
    uuid=_CARD, memory_bytes=1 << 30, compute_percent=50, burst_percent=50, context_bytes=0
)


@pytest.fixture
def held() -> Iterator[HeldFiles]:
    held = HeldFiles(DescriptorStore(), most=4)
    yield held
    held.close()


def _container(folder: pathlib.Path) -> pathlib.Path:
    folder.mkdir()
    mapped.create_limits(folder / "limits", Limits(devices=(_LIMIT,)))
    mapped.create_activity(folder / "activity", Activity(sampled_ns=0, cards=()))
    mapped.create_ledger(folder / "ledger", [_CARD])
    return folder


def test_no_more_files_are_held_than_allowed(
    held: HeldFiles, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    folders = [_container(tmp_path / name) for name in ("one", "two", "three")]
    for _ in range(3):
        held.look(folders)
    assert held.count == len(open_files.below(tmp_path)) == 4
    assert len(caplog.records) == 5, "each file once"
    assert f"{tmp_path}/two/activity: 4 files of containers are held already" in caplog.text
    for path in folders[0].iterdir():
        path.unlink()
    held.restore(folders[0])
    held.look(folders)
    assert held.count == len(open_files.below(tmp_path)) == 4, (
        "others come in the place of removed ones"
    )


def test_a_file_that_was_not_there_is_held_at_a_later_look(
    held: HeldFiles, tmp_path: pathlib.Path
) -> None:
    held.look([tmp_path / "one"])
    assert held.count == 0
    _container(tmp_path / "one")
    held.look([tmp_path / "one"])
    assert held.count == 3


def test_the_form_of_files_is_restored_where_no_look_names_them(
    held: HeldFiles, tmp_path: pathlib.Path
) -> None:
    folder = _container(tmp_path / "one")
    held.hold(folder)
    (folder / "ledger").chmod(0o4755)
    assert held.look(()) == {folder: True}
    assert held.restore(folder) == {"ledger's mode": "4755, is 0666 again"}
    assert held.restore(folder) == {}


def test_files_of_an_unmounted_folder_are_let_go_at_the_next_look(
    held: HeldFiles, tmp_path: pathlib.Path
) -> None:
    folder = _container(tmp_path / "one")
    held.look([folder])
    folder.rename(tmp_path / "unmounted")  # they keep their names, as on a file system that is
    held.look([])
    assert held.count == len(open_files.below(tmp_path)) == 0


def test_received_files_of_no_container_are_closed_once_they_are_removed(
    tmp_path: pathlib.Path,
) -> None:
    folder = _container(tmp_path / "one")
    received = tuple(mapped.open_for_writing(path) for path in folder.iterdir())
    held = HeldFiles(DescriptorStore(received=received))
    held.look(())
    assert held.count == 3
    (folder / "ledger").unlink()
    held.look(())
    assert held.count == 2
    held.close()


def test_files_are_held_while_the_service_manager_is_away(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    held = HeldFiles(DescriptorStore(str(tmp_path / "nobody")))
    held.hold(_container(tmp_path / "one"))
    assert held.count == 3
    assert "not kept by systemd for a restart" in caplog.text
    held.close()


def test_systemd_can_name_all_files_in_one_variable() -> None:
    longest = len(f"{2**64 - 1:x}-{2**64 - 1:x}:")
    most_bytes = 32 * os.sysconf("SC_PAGE_SIZE")  # MAX_ARG_STRLEN in the kernel's binfmts.h
    assert len("LISTEN_FDNAMES=") + MOST_FILES * longest < most_bytes


def test_no_other_container_waits_while_a_file_is_restored(
    held: HeldFiles, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel keeps a change of a file waiting while a tenant's long write to it goes on."""
    written, waits = threading.Event(), threading.Event()

    def restore(_: int, __: mapped.FileForm) -> dict[str, str]:
        waits.set()
        assert written.wait(10)
        return {}

    monkeypatch.setattr(mapped, "restore", restore)
    one, two = _container(tmp_path / "one"), _container(tmp_path / "two")
    held.hold(one)
    looks = threading.Thread(target=held.restore, args=(one,))
    looks.start()
    assert waits.wait(10)
    others = threading.Thread(target=held.hold, args=(two,))
    others.start()
    others.join(10)
    ended = not others.is_alive()
    written.set()
    looks.join()
    others.join()
    assert ended


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("damaged", [False, True])
def test_a_ledger_on_disk_alone_is_made_anew_unless_in_use(
    held: HeldFiles, tmp_path: pathlib.Path, runs: bool, damaged: bool
) -> None:
    """As after a boot: a read would wait for the disk, or for a tenant's write."""
    files = LimitsFiles(
        tmp_path, context_bytes=0, may_run=lambda *_: runs, held=held, mounts=ShareMounts(None)
    )
    placement = ContainerPlacement(
        name="one", index=0, minors=(1,), uuids=(_CARD,), cores=30, memory_units=4
    )
    path = files.prepare("uid", placement, None) / "ledger"
    before = path.stat().st_ino
    with path.open("r+b") as file:
        if damaged:
            file.write(b"x" * 100)
            file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    files.prepare("uid", placement, None)
    assert (path.stat().st_ino == before) is runs
