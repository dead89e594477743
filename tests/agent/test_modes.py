"""Files that other users of the host may not reach: a user that may open one may lock it."""

import fcntl
import os
import pathlib
import stat
from collections.abc import Iterator

import pytest

from gpustack.agent.instance import InstanceError, OnlyInstance
from tests.agent.host import Host


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    """Clear the umask of the tests' user, which could hide a mode that is too wide."""
    before = os.umask(0)
    yield
    os.umask(before)


def _mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_lock_is_its_owners_alone(tmp_path: pathlib.Path) -> None:
    lock = tmp_path / "run" / "agent.lock"
    OnlyInstance(lock).release()
    assert _mode(lock) == 0o600
    assert _mode(lock.parent) == 0o755


def test_the_mode_of_a_lock_that_all_may_read_is_repaired(tmp_path: pathlib.Path) -> None:
    lock = tmp_path / "agent.lock"
    lock.touch(mode=0o666)
    OnlyInstance(lock).release()
    assert _mode(lock) == 0o600


def test_a_lock_that_another_process_holds_is_named(tmp_path: pathlib.Path) -> None:
    lock = tmp_path / "agent.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        with pytest.raises(InstanceError, match=rf"another .* holds {lock}: fuser"):
            OnlyInstance(lock)
    OnlyInstance(lock).release()


@pytest.mark.parametrize("what", ["link", "dangling", "folder", "fifo"])
def test_a_lock_that_is_no_regular_file_is_named(tmp_path: pathlib.Path, what: str) -> None:
    lock, other = tmp_path / "agent.lock", tmp_path / "other"
    if what == "folder":
        lock.mkdir()
    elif what == "fifo":
        os.mkfifo(lock)
    else:
        lock.symlink_to(other)
        if what == "link":
            other.touch(mode=0o644)
    with pytest.raises(InstanceError, match=f"{lock}: .*; remove it"):
        OnlyInstance(lock)
    assert not other.exists() or _mode(other) == 0o644


def test_other_users_cannot_reach_containers_files_or_plugin_sockets(host: Host) -> None:
    (host.state / "containers").mkdir(mode=0o755)
    host.start_agent()
    pod = host.share()
    host.folder(pod, "c0").parent.mkdir(mode=0o755)
    host.kubelet.admit(pod)
    for folder in (
        host.folder(pod, "c0"),
        host.folder(pod, "c0").parent,
        host.state / "containers",
    ):
        assert _mode(folder) == 0o700
    assert _mode(host.state / "checkpoint.json") == 0o600
    for name in ("vcore.sock", "vmemory.sock"):
        assert _mode(host.kubelet.root / "device-plugins" / name) == 0o600
