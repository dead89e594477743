"""A host on which a pod runs another kube-scheduler, for other profiles, beside the static pod."""

import os
import pathlib

import pytest

from tests.ansible.scheduler_host import Host
from tests.ansible.test_kube_scheduler_role import BROKEN, GOOD, MANIFEST, urls

pytestmark = pytest.mark.long


def test_another_scheduler_keeps_no_rollout_from_ending(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    pgrep = tmp_path / "bin" / "pgrep"
    # this test's own process stands for the other one: it runs before, and after
    pgrep.write_text(f"{pgrep.read_text()}echo {os.getpid()}\n")
    host.manifest.write_text(MANIFEST)
    try:
        host.start_kubelet()
        before = host.pid
        done = host.play(kube_scheduler_extender_url=GOOD)
        assert done.returncode == 0, done.stdout
        assert urls(host) == [GOOD]
        assert host.pid != before
        broken = host.play(kube_scheduler_extender_url=BROKEN)
        assert "is back, and it answers again" in " ".join(broken.stdout.split())
        assert urls(host) == [GOOD]
    finally:
        host.stop()
