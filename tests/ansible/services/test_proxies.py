"""A host's daemons are asked directly, whatever proxy the host's environment names."""

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.ansible import layout
from tests.ansible.kube_scheduler.scheduler_host import FOUND, Host

NOWHERE = "http://127.0.0.1:1"
EXTENDER = layout.ROOT / "roles/gpustack_extender/vars/main.yml"


def tasks_in(found: Any) -> Iterator[dict[str, Any]]:
    for task in found:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_in(task.get(part, ()))


def test_every_question_to_a_daemon_passes_proxies_by() -> None:
    files = sorted((layout.ROOT / "roles").glob("*/tasks/*.yml"))
    tasks = [task for file in files for task in tasks_in(layout.load(file) or ())]
    asked = [task["ansible.builtin.uri"] for task in tasks if "ansible.builtin.uri" in task]
    assert len(asked) >= 6
    for each in asked:
        if each == "{{ __gpustack_extender_ask }}":
            said = layout.load(EXTENDER)["__gpustack_extender_ask"]
            assert said.count("'use_proxy': false") == said.count("'url'")
        else:
            assert each.get("use_proxy") is False, each


@pytest.mark.long
def test_a_hosts_proxy_is_not_asked_for_the_scheduler(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path, environment={"http_proxy": NOWHERE, "https_proxy": NOWHERE})
    host.config.write_text(FOUND)
    try:
        host.start_unit()
        done = host.play("preflight", __kube_scheduler_settled_seconds=0)
        assert done.returncode == 0, done.stdout
    finally:
        host.stop()
