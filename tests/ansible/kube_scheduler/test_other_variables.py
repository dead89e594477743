"""A run with other variables than the last one leaves no scheduler of ours behind."""

from typing import Any

import pytest

from tests.ansible.kube_scheduler.scheduler_host import FOUND, GOOD, MANIFEST, Make
from tests.ansible.rendering import words

pytestmark = pytest.mark.long

URL = {"kube_scheduler_extender_url": GOOD}
ELSEWHERE = {"kube_scheduler_config_path": "/nowhere/scheduler-config.yaml"}
nightly = pytest.mark.nightly


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("unit", ELSEWHERE),
        pytest.param("unit", {"kube_scheduler_manager": "static_pod"}, marks=nightly),
        pytest.param("unit", {"kube_scheduler_manager": "own"}, marks=nightly),
        pytest.param("static_pod", ELSEWHERE, marks=nightly),
        pytest.param("static_pod", {"kube_scheduler_manager": "systemd"}, marks=nightly),
    ],
)
def test_uninstall_that_would_not_find_our_entry_removes_nothing(
    make: Make, kind: str, changed: dict[str, Any]
) -> None:
    host = make(kind)
    assert host.play(**URL).returncode == 0
    before = {path.name: path.read_text() for path in host.folder.glob("*.yaml*")}
    done = host.play("uninstall", **URL, **changed)
    assert done.returncode != 0, done.stdout
    assert f"reads {host.config} with our entry" in words(done), done.stdout
    after = {path.name: path.read_text() for path in host.folder.glob("*.yaml*")}
    assert after == before


# One made from nothing would stand for the site's, and uninstall wouldn't find what was kept.
@pytest.mark.nightly
def test_a_static_pods_file_moves_nowhere_by_another_path(make: Make) -> None:
    host = make("static_pod")
    before = host.pid
    host.config.write_text(f"{FOUND}profiles: [{{schedulerName: theirs}}]\n")
    host.manifest.write_text(MANIFEST.replace("--leader-elect=true", f"--config={host.config}"))
    host.wait_for_another(before)
    assert host.play(**URL).returncode == 0
    manifest = host.manifest.read_text()
    for tasks in ("preflight", "main"):
        done = host.play(tasks, **URL, kube_scheduler_config_path=f"{host.folder}/new.yaml")
        assert done.returncode != 0, done.stdout
        assert f"the scheduler reads --config={host.config}" in words(done), done.stdout
    assert host.manifest.read_text() == manifest
    host.wait()


@pytest.mark.nightly
def test_uninstall_without_the_manifest_of_before_removes_nothing(make: Make) -> None:
    host = make("static_pod")
    assert host.play(**URL).returncode == 0
    kept = host.folder / "kube-scheduler.yaml.before-gpustack"
    kept.rename(host.folder / "elsewhere")
    manifest, running = host.manifest.read_text(), host.pid
    done = host.play("uninstall", **URL)
    assert done.returncode != 0, done.stdout
    assert f"{kept}, which was kept to put {host.manifest} back, is gone" in words(done)
    assert (host.manifest.read_text(), host.pid, host.urls) == (manifest, running, [GOOD])
    (host.folder / "elsewhere").rename(kept)
    assert host.play("uninstall", **URL).returncode == 0
    assert host.manifest.read_text() == MANIFEST
