"""kubeadm writes the scheduler's manifest anew when it upgrades a control plane."""

import pytest

from tests.ansible import layout
from tests.ansible.kube_scheduler.scheduler_host import GOOD, MANIFEST, Make

pytestmark = pytest.mark.long

UPGRADED = MANIFEST.replace("v1.34.4", "v1.35.0")


@pytest.mark.nightly
def test_the_role_gives_an_upgraded_scheduler_our_file_again(make: Make) -> None:
    host = make("static_pod")
    assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
    before = host.pid
    host.manifest.write_text(UPGRADED)
    host.wait_for_another(before)
    verified = host.play("verify", kube_scheduler_extender_url=GOOD)
    assert "The running kube-scheduler doesn't name" in verified.stdout
    # as drift.yml looks
    found = host.play("main", "--check", kube_scheduler_extender_url=GOOD)
    assert found.returncode == 0, found.stdout
    tasks = found.stdout.split("TASK [kube_scheduler : ")
    changed = [task.partition("]")[0] for task in tasks if "\nchanged: " in task]
    assert "Name the file in the manifest" in changed
    assert host.manifest.read_text() == UPGRADED
    done = host.play(kube_scheduler_extender_url=GOOD)
    assert done.returncode == 0, done.stdout
    assert f"--config={host.config}" in host.manifest.read_text()
    assert host.play("uninstall", kube_scheduler_extender_url=GOOD).returncode == 0
    assert host.manifest.read_text() == UPGRADED


def test_operations_says_what_an_upgrade_by_kubeadm_needs() -> None:
    said = (layout.ROOT / "docs" / "upgrades.md").read_text("utf-8")
    assert "kubeadm upgrade" in said
    assert "--tags kube_scheduler" in said
