"""A run with other variables than the last one leaves no scheduler of ours behind."""

from typing import Any

import pytest

from tests.ansible.kube_scheduler.scheduler_host import GOOD, Make
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
