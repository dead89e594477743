"""The host's own API server and scheduler are told from processes that look like them."""

import pathlib
from typing import Any

import pytest

from tests.ansible import plugins
from tests.ansible.kube_scheduler.trial.laid_processes import (
    HASH,
    STATIC_POD,
    USERS_POD,
    lay_process,
)

module = plugins.load("roles/kube_scheduler/library/kube_scheduler_processes.py")

COMMAND = ("kube-scheduler", "--config=/etc/kubernetes/scheduler-config.yaml")
USERS = "01234567-89ab-cdef-0123-456789abcdef"
CONTAINER = f"cri-containerd-{'c' * 64}.scope"
SLICES = "/kubepods.slice/kubepods-burstable.slice"
STATIC_SLICE = f"{SLICES}/kubepods-burstable-pod{HASH}.slice/{CONTAINER}"
USERS_SLICE = f"{SLICES}/kubepods-burstable-pod{USERS.replace('-', '_')}.slice/{CONTAINER}"


def seen(folder: pathlib.Path, uid: str = "") -> tuple[list[dict[str, Any]], list[str]]:
    """Return what the module finds below a folder."""
    own, others = module.processes(folder / "proc", ["kube-apiserver", "kube-scheduler"], uid)
    assert all(program == COMMAND[0] for program in others.values())
    return own, [*others]


def lay(folder: pathlib.Path, cgroup: str, user: int = 0) -> None:
    """Lay the process 4 of this user."""
    lay_process(folder, 4, cgroup, COMMAND)
    # as of a program with the set-user-ID bit: the effective user is root
    (folder / "proc/4/status").write_text(f"Name:\tx\nUid:\t{user}\t0\t0\t0\n")


@pytest.mark.parametrize("cgroup", [STATIC_POD, STATIC_SLICE])
def test_a_static_pods_process_is_the_hosts_own(tmp_path: pathlib.Path, cgroup: str) -> None:
    lay(tmp_path, cgroup, user=65534)
    own = {"pid": "4", "program": COMMAND[0], "command": [*COMMAND], "root": False, "pod": HASH}
    assert seen(tmp_path) == ([own], [])


@pytest.mark.parametrize(
    ("cgroup", "user"),
    [
        ("/system.slice/control-plane.service", 0),
        ("/system.slice/kube-scheduler.service", 999),
        ("/system.slice/snap.kube-scheduler.daemon.service", 999),
        ("/machine.slice/libpod-1.scope/system.slice/kube-scheduler.service", 0),
    ],
)
def test_a_units_process_is_the_hosts_own(tmp_path: pathlib.Path, cgroup: str, user: int) -> None:
    lay(tmp_path, cgroup, user)
    own, others = seen(tmp_path)
    assert [(each["pid"], each["pod"], each["root"]) for each in own] == [("4", "", user == 0)]
    assert others == []


@pytest.mark.parametrize(
    ("cgroup", "user"),
    [
        (USERS_POD, 0),
        (USERS_SLICE, 0),
        (f"{USERS_SLICE}/kubepods-pod{HASH}.slice", 0),  # made by the container itself
        (f"{USERS_SLICE}/system.slice/kube-scheduler.service", 0),
        (f"/kubepods/pod{HASH}/a\n1:name=systemd:/kubepods/pod{USERS}/a", 0),
        # containerd with the wrong driver of cgroups
        (f"/system.slice/kubepods-pod{USERS.replace('-', '_')}.slice:cri-containerd:1", 0),
        (f"/system.slice/{CONTAINER}", 0),  # a kubelet without cgroups of pods
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/kube-scheduler.service", 1000),
        ("/user.slice/user-1000.slice/session-2.scope", 1000),
        # systemd-run --user --slice=a-pod….slice
        (f"/user.slice/user-1000.slice/user@1000.service/a.slice/a-pod{HASH}.slice/x.service", 0),
        ("/user.slice/user-1000.slice/user@1000.service", 0),
        ("/system.slice/cron.service", 1000),
        ("/", 0),
    ],
)
def test_a_users_process_is_not_the_hosts(tmp_path: pathlib.Path, cgroup: str, user: int) -> None:
    lay(tmp_path, cgroup, user)
    assert seen(tmp_path) == ([], ["4"])


def test_a_static_pod_may_name_its_uid(tmp_path: pathlib.Path) -> None:
    lay(tmp_path, USERS_POD)
    assert [each["pod"] for each in seen(tmp_path, USERS)[0]] == [USERS]


def test_the_words_of_a_users_process_are_not_read(tmp_path: pathlib.Path) -> None:
    """Its memory may be a file system's that never answers."""
    lay(tmp_path, USERS_POD)
    (tmp_path / "proc/4/cmdline").unlink()
    (tmp_path / "proc/4/cmdline").mkdir()
    assert seen(tmp_path) == ([], ["4"])


def test_a_process_that_has_ended_and_one_of_another_name_are_left_out(
    tmp_path: pathlib.Path,
) -> None:
    lay(tmp_path, STATIC_POD)
    (tmp_path / "proc/4/cmdline").unlink()
    lay_process(tmp_path, 5, STATIC_POD, ("etcd",))
    (tmp_path / "proc/self").mkdir()
    assert seen(tmp_path) == ([], [])


def test_a_process_whose_cgroup_is_not_told_is_not_the_hosts(
    tmp_path: pathlib.Path,
) -> None:
    """Any account nests cgroups until their path is too long: the read fails then."""
    lay(tmp_path, STATIC_POD)
    (tmp_path / "proc/4/cgroup").unlink()
    (tmp_path / "proc/4/cgroup").mkdir()
    assert seen(tmp_path) == ([], ["4"])
