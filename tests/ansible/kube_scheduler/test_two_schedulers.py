"""A host on which a pod runs another kube-scheduler, for other profiles, beside the static pod."""

import functools
import itertools
import os
import pathlib
import shutil
import threading
import time

import pytest

from tests.ansible.kube_scheduler.scheduler_host import BROKEN, GOOD, Make
from tests.ansible.kube_scheduler.trial.laid_processes import HASH, USERS_POD, lay_process
from tests.ansible.rendering import words
from tests.waiting import running

pytestmark = [pytest.mark.long, pytest.mark.nightly]

OTHER = ("kube-scheduler", "--config=/theirs.yaml")


def test_another_scheduler_keeps_no_rollout_from_ending(make: Make) -> None:
    host = make("static_pod")
    lay_process(host.folder, 4, USERS_POD, OTHER)  # it runs before, and after
    before = host.pid
    done = host.play(kube_scheduler_extender_url=GOOD)
    assert done.returncode == 0, done.stdout
    assert host.urls == [GOOD]
    assert host.pid != before
    broken = host.play(kube_scheduler_extender_url=BROKEN)
    assert "is back, and it answers again" in words(broken)
    assert host.urls == [GOOD]


def come_and_go(folder: pathlib.Path, stop: threading.Event) -> None:
    """Begin a user's scheduler again and again, and end the one before."""
    for pid in itertools.count(1 << 22):  # more than any of this machine's
        lay_process(folder, pid, USERS_POD, OTHER)
        if stop.wait(0.1):
            return
        shutil.rmtree(folder / "proc" / str(pid))


@pytest.mark.parametrize(
    "cgroup",
    [
        f"/system.slice/docker-{'c' * 64}.scope",
        "/system.slice/kube-scheduler.service/libpod-payload-c",
    ],
)
def test_a_scheduler_that_its_unit_runs_in_a_container_is_known(make: Make, cgroup: str) -> None:
    host = make("unit")
    assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
    (host.folder / "proc" / host.pid / "cgroup").write_text(f"0::{cgroup}\n")
    done = host.play("verify", kube_scheduler_extender_url=GOOD)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", ["unit", "static_pod"])
def test_a_users_process_does_not_speak_for_the_hosts_scheduler(make: Make, kind: str) -> None:
    host = make(kind)
    assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
    others = host.folder / "others.yaml"
    (host.folder / f"{others.name}.last-good-gpustack").touch()
    for pid, path in ((4, host.config), (5, others)):
        lay_process(host.folder, pid, USERS_POD, ("kube-scheduler", f"--config={path}"))
    assert host.play("verify", kube_scheduler_extender_url=GOOD).returncode == 0
    shutil.move(host.folder / "proc" / host.pid, host.folder / "gone")
    verified = words(host.play("verify", kube_scheduler_extender_url=GOOD))
    # a unit's own words count where its process isn't seen: it may run in a container
    unnamed = f"The running kube-scheduler doesn't name {host.config}" in verified
    assert unnamed == (kind == "static_pod")
    shutil.move(host.folder / "gone", host.folder / "proc" / host.pid)
    done = host.play("uninstall", kube_scheduler_extender_url=GOOD)
    assert done.returncode == 0, done.stdout


class _Leisurely(threading.Event):
    """A kubelet's end that is waited for so long that the kubelet sees a new manifest late."""

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(None if timeout is None else 5)


def test_schedulers_of_users_end_no_wait_for_the_hosts_own(make: Make) -> None:
    host = make("static_pod")
    assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
    host.ended = _Leisurely()
    with running(functools.partial(come_and_go, host.folder)):
        broken = host.play(kube_scheduler_extender_url=BROKEN)
    assert "is back, and it answers again" in words(broken)
    assert host.urls == [GOOD]


def test_a_log_of_any_bytes_keeps_no_file_from_being_put_back(make: Make) -> None:
    """A tenant's pod on that host may have such a name, and the newest log."""
    host = make("static_pod")
    assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
    for pod, hours, content in (
        (f"kube-system_kube-scheduler-here_{HASH}", 1, b"its a\xffb\n"),
        (f"team_kube-scheduler-mine_{HASH[:8]}-0000-0000-0000-{HASH[:12]}", 2, b"a lie\n"),
        (f"team_kube-scheduler-mine_{HASH}-0000", 3, b"a lie\n"),
    ):
        log = host.folder / "logs" / pod / "main" / "0.log"
        log.parent.mkdir(parents=True)
        log.write_bytes(content)
        os.utime(log, (time.time() + 3600 * hours,) * 2)
    broken = words(host.play(kube_scheduler_extender_url=BROKEN))
    assert "is back, and it answers again" in broken
    assert "its ab" in broken
    assert "a lie" not in broken
    assert host.urls == [GOOD]
