"""A driver is replaced under the agent: old containers keep their volume, new ones get the new."""

import errno
import os
import pathlib
import shutil
import threading
from collections.abc import Callable

import pytest

from gpustack.agent.node import driver_volumes
from gpustack.agent.node.driver_files import DriverFilesError, Library
from gpustack.agent.node.driver_volumes import DriverFiles, DriverVolumes, running_version
from tests.agent import inode_lock
from tests.agent.host import Host, container, decision, make_pod
from tests.agent.host_files import DRIVER

OLD, NEW = "535.261.03", "550.54.15"


class _Driver:
    """A driver on the host, and what containers have of it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.running = OLD
        self.used: frozenset[str] | None = frozenset()
        self.located = 0
        self.install(OLD)
        self.volumes = DriverVolumes(
            folder / "driver",
            version=lambda: self.running,
            locate=self._locate,
            used=lambda _: self.used,
        )

    def install(self, version: str) -> None:
        """Replace the files on the host by those of another version."""
        shutil.rmtree(self.folder / "lib", ignore_errors=True)
        (self.folder / "lib").mkdir()
        for stem in ("libcuda.so", "libnvidia-ml.so"):
            (self.folder / "lib" / f"{stem}.{version}").write_text(f"{stem} {version}")

    def _locate(self, version: str) -> DriverFiles:
        self.located += 1
        files = sorted((self.folder / "lib").glob(f"*.{version}"))
        if not files:
            raise DriverFilesError(f"libcuda.so.1 of driver {version}: not there")
        sonames = [f"{each.name.partition('.so')[0]}.so.1" for each in files]
        libraries = [
            Library(soname=soname, file=file) for soname, file in zip(sonames, files, strict=True)
        ]
        return DriverFiles(libraries=libraries, binaries=())


@pytest.fixture
def driver(tmp_path: pathlib.Path) -> _Driver:
    return _Driver(tmp_path)


def _cuda(volume: pathlib.Path) -> str:
    return (volume / "lib64" / "libcuda.so.1").read_text()


def test_another_drivers_volume_is_built_when_it_runs(driver: _Driver) -> None:
    old = driver.volumes.current()
    driver.install(NEW)
    driver.running = NEW
    new = driver.volumes.current()
    assert (_cuda(old), _cuda(new)) == (f"libcuda.so {OLD}", f"libcuda.so {NEW}")


def test_a_driver_that_waits_for_a_boot_leaves_the_volume(driver: _Driver) -> None:
    old = driver.volumes.current()
    driver.install(NEW)  # its kernel module isn't loaded yet
    assert driver.volumes.current() == old
    again = DriverVolumes(
        driver.folder / "driver",
        version=lambda: OLD,
        locate=driver._locate,
        used=lambda _: None,
    )
    assert _cuda(again.current()) == f"libcuda.so {OLD}"


def test_a_driver_without_files_and_volume_is_an_error(driver: _Driver) -> None:
    driver.running = NEW
    with pytest.raises(DriverFilesError, match=NEW):
        driver.volumes.current()
    driver.install(NEW)
    assert _cuda(driver.volumes.current()) == f"libcuda.so {NEW}"


def test_a_volume_that_has_not_changed_is_not_looked_for_again(driver: _Driver) -> None:
    for _ in range(5):
        driver.volumes.current()
    assert driver.located == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.unlink(),
        lambda file: (file.unlink(), file.write_text("")),
        lambda file: (file.unlink(), file.write_text("libcuda")),
    ],
    ids=["gone", "empty", "shorter"],
)
def test_a_damaged_volume_is_built_again_when_it_is_given(
    driver: _Driver, damage: Callable[[pathlib.Path], object]
) -> None:
    volume = driver.volumes.current()
    damage(volume / "lib64" / f"libcuda.so.{OLD}")
    assert driver.volumes.current() == volume
    assert _cuda(volume) == f"libcuda.so {OLD}"


def test_an_unused_volume_is_removed_and_a_used_one_stays(driver: _Driver) -> None:
    old = driver.volumes.current()
    driver.install(NEW)
    driver.running = NEW
    new = driver.volumes.current()
    foreign = driver.folder / "driver" / "lost+found"
    foreign.mkdir()
    for used, kept in ((None, True), (frozenset({OLD}), True), (frozenset(), False)):
        driver.used = used
        driver.volumes.collect()
        assert old.exists() is kept
    assert new.exists()
    assert sorted(each.name for each in (driver.folder / "driver").iterdir()) == [
        NEW,
        foreign.name,
    ]


def test_damaged_volumes_that_were_moved_aside_are_removed(driver: _Driver) -> None:
    volume = driver.volumes.current()
    (volume / "lib64" / f"libcuda.so.{OLD}").unlink()
    driver.volumes.current()
    assert len(list(volume.parent.iterdir())) == 2
    driver.volumes.collect()
    assert list(volume.parent.iterdir()) == [volume]


def test_a_volume_that_a_process_has_mounted_is_found(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, proc = tmp_path / "driver", tmp_path / "proc"
    for pid, field in (
        (1, "/"),
        (6, "/empty"),  # in the next one's namespace, with a root of its own
        (7, f"/var/lib/gpustack/driver/{OLD}"),
        (8, "/driver/5350"),
    ):
        (proc / str(pid) / "ns").mkdir(parents=True)
        (proc / str(pid) / "ns" / "mnt").symlink_to(f"mnt:[{8 if pid == 8 else 1}]")
        (proc / str(pid) / "root").symlink_to("/" if field == "/" else field)
        (proc / str(pid) / "mountinfo").write_text(
            f"36 35 98:0 {field} /usr/local/nvidia ro,noatime master:1 - ext4 /dev/root rw\n"
        )
    (proc / "self").mkdir()
    names = frozenset({OLD, NEW, f".{OLD}.damaged-x"})
    assert driver_volumes.mounted(names, root, proc) == frozenset({OLD})
    monkeypatch.setattr(driver_volumes, "_MOUNTS_BYTES", 100)  # a tenant's paths have any length
    assert driver_volumes.mounted(names, root, proc) is None


def test_a_process_that_ends_meanwhile_hides_no_other(tmp_path: pathlib.Path) -> None:
    root, proc = tmp_path / "driver", tmp_path / "proc"
    line = f"36 35 98:0 /var/lib/gpustack/driver/{OLD} /usr/local/nvidia ro - ext4 /dev/x rw\n"
    for pid in ("7", "8"):
        (proc / pid / "ns").mkdir(parents=True)
        (proc / pid / "ns" / "mnt").symlink_to("mnt:[1]")
        (proc / pid / "root").symlink_to("/")
        (proc / pid / "mountinfo").write_text(line)
    (next(proc.iterdir()) / "mountinfo").unlink()  # of the first that is looked at
    assert driver_volumes.mounted(frozenset({OLD}), root, proc) == frozenset({OLD})


# Any container's process may have a root that is deeper than a path may be.
@pytest.mark.parametrize("number", [errno.EACCES, errno.ENAMETOOLONG])
def test_volumes_stay_where_mounts_may_not_be_read(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    root, process = tmp_path / "driver", tmp_path / "proc" / "7"
    process.mkdir(parents=True)
    mounts = process / "mountinfo"
    mounts.write_text(f"36 35 98:0 /gpustack/driver/{OLD} /usr/local/nvidia ro - ext4 /dev/x rw\n")

    def refuse(path: pathlib.Path, *_: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    def hide(path: str) -> None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "readlink", hide)  # a namespace is for few to read, mounts for all
    found = driver_volumes.mounted(frozenset({OLD, NEW}), root, process.parent)
    assert found == frozenset({OLD})
    monkeypatch.setattr(pathlib.Path, "open", refuse)
    assert driver_volumes.mounted(frozenset({OLD, NEW}), root, process.parent) is None


@pytest.mark.parametrize("text", ["550.54.15\n", "550.54\n"])
def test_the_kernel_modules_version_is_that_of_the_driver(
    tmp_path: pathlib.Path, text: str
) -> None:
    (tmp_path / "version").write_text(text)
    assert running_version(lambda: OLD, tmp_path / "version") == text.strip()


@pytest.mark.parametrize("content", [None, b"", b"../../etc", b"\xff\xfe"])
def test_without_a_module_nvml_says_the_version(
    tmp_path: pathlib.Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "version").write_bytes(content)
    assert running_version(lambda: OLD, tmp_path / "version") == OLD


def _volume(host: Host, name: str) -> str:
    written = decision((1,), cores=10, memory=4)
    pod = host.create(make_pod(name, container("c0", 10, 4), annotations=written))
    answer = host.kubelet.admit(pod)["c0"]
    [mount] = [each for each in answer.mounts if each.container_path == "/usr/local/nvidia"]
    return str(mount.host_path)


def test_an_agent_gives_the_new_drivers_volume_without_a_restart(host: Host) -> None:
    host.start_agent()
    old = _volume(host, "old")
    host.files.install_driver(NEW)
    host.kernel.driver_version.write_text(f"{NEW}\n")
    new = _volume(host, "new")
    assert (pathlib.Path(old).name, pathlib.Path(new).name) == (DRIVER, NEW)
    host.agent.host_files.volumes.collect()
    assert pathlib.Path(old).exists(), "the kubelet mounts it where the container starts again"


def test_a_tenants_long_read_of_an_old_volume_keeps_no_container_waiting(driver: _Driver) -> None:
    """The kernel keeps a removal waiting while a read (O_DIRECT) of the file is under way."""
    old = driver.volumes.current()
    driver.install(NEW)
    driver.running = NEW
    new = driver.volumes.current()
    collecting = threading.Thread(target=driver.volumes.collect)
    asking = threading.Thread(target=driver.volumes.current)
    with inode_lock.held(old / "lib64" / f"libcuda.so.{OLD}", alone=False):
        collecting.start()
        while old.exists():
            assert collecting.is_alive()
        asking.start()
        asking.join(5)
        is_answered = not asking.is_alive()
    asking.join()
    collecting.join()
    assert is_answered
    assert {each.name for each in new.parent.iterdir()} == {NEW}
