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


def test_a_kept_file_that_cannot_be_read_is_not_taken_for_none(make: Make) -> None:
    """What replaced none is removed: the site's own file would be lost."""
    host = make("unit")
    assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
    kept = host.folder / f"{host.config.name}.before-gpustack"
    kept.rename(host.folder / "elsewhere")
    kept.mkdir()  # as on a file system with errors: it is there, and no read succeeds
    ours = host.config.read_text()
    done = host.play("uninstall", kube_scheduler_extender_url=GOOD)
    assert done.returncode != 0, done.stdout
    assert str(kept) in done.stdout
    assert host.config.read_text() == ours


def test_a_note_of_kubeadms_patch_that_cannot_be_read_is_named(make: Make) -> None:
    host = make("unit")
    note = host.folder / "kube-scheduler.yaml.patched-gpustack"
    note.mkdir()
    for tasks in ("main", "uninstall"):
        done = host.play(tasks, kube_scheduler_extender_url=GOOD)
        assert done.returncode != 0, done.stdout
        assert str(note) in done.stdout
