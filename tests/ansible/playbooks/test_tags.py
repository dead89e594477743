"""A run of some tags does what they name, or says that it did nothing."""

import pathlib
from typing import Any

import pytest

from tests.ansible.playbooks import recorder

pytestmark = pytest.mark.long

SITE: dict[str, dict[str, dict[str, Any]]] = {
    "kube_control_plane": {"cp1": {}, "cp2": {}},
    "gpu_nodes": {"gpu1": {}, "gpu2": {}},
}
CONFIRMED = "--extra-vars=uninstall_confirmed=true"


@pytest.mark.parametrize(
    ("playbook", "tag", "why"),
    [
        ("playbooks/uninstall.yml", "gpustack_agent", "and does all or nothing"),
        ("playbooks/running_pods.yml", "gpustack_hook", "and does all or nothing"),
        ("playbooks/preflight.yml", "gpustack_agent", "only preflight."),
        ("site.yml", "gpustack_agnet", "only preflight, cluster_objects, "),
    ],
)
def test_a_tag_by_which_nothing_would_be_done_is_refused(
    tmp_path: pathlib.Path, playbook: str, tag: str, why: str
) -> None:
    run = recorder.play(tmp_path, SITE, f"--tags={tag}", CONFIRMED, playbook=playbook)
    assert run.status != 0
    assert run.entries == []
    assert f"this playbook has no tag {tag}, {why}" in " ".join(run.output.split())


@pytest.mark.parametrize(
    ("role", "hosts"),
    [("gpustack_agent", ["gpu1", "gpu2"]), ("cluster_objects", ["cp1"])],
)
def test_verify_checks_the_role_that_a_tag_names(
    tmp_path: pathlib.Path, role: str, hosts: list[str]
) -> None:
    run = recorder.play(tmp_path, SITE, f"--tags={role}", playbook="playbooks/verify.yml")
    assert run.status == 0, run.output
    assert {entry.role for entry in run.entries} == {f"{role}/verify"}
    assert run.hosts(f"{role}/verify") == hosts


# Where it doesn't know a new address or certificate, every pod with a GPU waits.
def test_a_scheduler_follows_its_extender(tmp_path: pathlib.Path) -> None:
    run = recorder.play(tmp_path, SITE, "--tags=gpustack_extender")
    assert run.status == 0, run.output
    assert run.hosts("kube_scheduler") == run.hosts("gpustack_extender") == ["cp1", "cp2"]


@pytest.mark.parametrize(
    ("tags", "host", "check"),
    [
        pytest.param(
            "gpustack_hook,gpustack_agent", "gpu2", "preflight", marks=pytest.mark.nightly
        ),
        ("cluster_objects", "cp2", "kube_scheduler/preflight"),
        pytest.param("gpustack_agent", "cp1", "preflight/cluster", marks=pytest.mark.nightly),
    ],
)
def test_a_host_that_fails_preflight_stops_a_run_of_some_tags(
    tmp_path: pathlib.Path, tags: str, host: str, check: str
) -> None:
    groups = {
        group: {name: {"fails": [check]} if name == host else {} for name in names}
        for group, names in SITE.items()
    }
    run = recorder.play(tmp_path, groups, f"--tags={tags}")
    assert run.status != 0
    assert run.changed == []
    assert f"because {host} didn't pass" in " ".join(run.output.split())


def test_the_checks_of_preflight_may_be_left_out(tmp_path: pathlib.Path) -> None:
    run = recorder.play(tmp_path, SITE, "--tags=nvidia_driver", "--skip-tags=preflight")
    assert run.status == 0, run.output
    assert {entry.role for entry in run.entries} == {"nvidia_driver"}
