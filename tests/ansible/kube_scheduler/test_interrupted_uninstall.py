"""Uninstall restarts a scheduler whose file an earlier run has put back without a restart."""

import pytest

from tests.ansible.kube_scheduler.scheduler_host import GOOD, Make

pytestmark = pytest.mark.long


# A Policy has its extender asked about every pod: with a dead one in memory none is scheduled.
@pytest.mark.nightly
def test_the_next_run_restarts_a_scheduler_that_was_not(make: Make) -> None:
    host = make("unit")
    found = host.config.read_text()
    assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
    running = host.pid
    systemctl = host.folder / "bin" / "systemctl"
    program = systemctl.read_text()
    # the run ends before the restart
    broken = 'verb == "restart":\n    sys.exit(1)\nelif verb == "start"'
    systemctl.write_text(program.replace('verb in ("start", "restart")', broken))
    assert host.play("uninstall", kube_scheduler_extender_url=GOOD).returncode != 0
    assert (host.config.read_text(), host.pid) == (found, running)
    systemctl.write_text(program)
    done = host.play("uninstall", kube_scheduler_extender_url=GOOD)
    assert done.returncode == 0, done.stdout
    assert host.pid != running
    assert list(host.folder.glob("*-gpustack")) == []
    running = host.pid
    assert "changed=0" in host.play("uninstall", kube_scheduler_extender_url=GOOD).stdout
    assert host.pid == running
