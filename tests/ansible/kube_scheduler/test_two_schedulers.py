"""A host on which a pod runs another kube-scheduler, for other profiles, beside the static pod."""

import os
import threading
import time

import pytest

from tests.ansible.kube_scheduler.scheduler_host import BROKEN, GOOD, Make
from tests.ansible.rendering import words

pytestmark = [pytest.mark.long, pytest.mark.nightly]


def test_another_scheduler_keeps_no_rollout_from_ending(make: Make) -> None:
    host = make("static_pod")
    pgrep = host.folder / "bin" / "pgrep"
    # this test's own process stands for the other one: it runs before, and after
    pgrep.write_text(f"{pgrep.read_text()}echo {os.getpid()}\n")
    before = host.pid
    done = host.play(kube_scheduler_extender_url=GOOD)
    assert done.returncode == 0, done.stdout
    assert host.urls == [GOOD]
    assert host.pid != before
    broken = host.play(kube_scheduler_extender_url=BROKEN)
    assert "is back, and it answers again" in words(broken)
    assert host.urls == [GOOD]


class _Leisurely(threading.Event):
    """A kubelet's end that is waited for so long that the kubelet sees a new manifest late."""

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(None if timeout is None else 5)


def test_schedulers_of_users_end_no_wait_for_the_hosts_own(make: Make) -> None:
    host = make("static_pod")
    assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
    pgrep = host.folder / "bin" / "pgrep"
    pgrep.write_text(f"{pgrep.read_text()}echo $$\n")  # another PID each time
    host.ended = _Leisurely()
    broken = host.play(kube_scheduler_extender_url=BROKEN)
    assert "is back, and it answers again" in words(broken)
    assert host.urls == [GOOD]


def test_a_log_of_any_bytes_keeps_no_file_from_being_put_back(make: Make) -> None:
    """A tenant's pod on that host may have such a name, and the newest log."""
    host = make("static_pod")
    assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
    log = host.folder / "logs" / "team_kube-scheduler-mine_2" / "main" / "0.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"a\xffb\n")
    os.utime(log, (time.time() + 3600,) * 2)
    broken = host.play(kube_scheduler_extender_url=BROKEN)
    assert "is back, and it answers again" in words(broken)
    assert host.urls == [GOOD]
