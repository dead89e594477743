"""A host on which a pod runs another kube-scheduler, for other profiles, beside the static pod."""

import os

import pytest

from tests.ansible.rendering import words
from tests.ansible.scheduler_host import BROKEN, GOOD, Make

pytestmark = pytest.mark.long


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
