"""No playbook succeeds with an inventory that lacks one of the product's groups."""

import pathlib
from typing import Any

import pytest

from tests.ansible.playbooks import recorder

pytestmark = pytest.mark.long

GROUPS = ("kube_control_plane", "gpu_nodes")
FIRST = {"kube_control_plane": "cp1", "gpu_nodes": "gpu1"}


@pytest.mark.parametrize(
    ("playbook", "missing"),
    [
        ("verify", GROUPS),
        ("verify", ("gpu_nodes",)),
        ("running_pods", ("kube_control_plane",)),
        ("gpu_node_pods", ("gpu_nodes",)),
        ("uninstall", ("kube_control_plane",)),
        ("uninstall", ("gpu_nodes",)),
        pytest.param("uninstall", GROUPS, marks=pytest.mark.nightly),
    ],
)
def test_a_missing_group_is_named_and_nothing_else_is_done(
    tmp_path: pathlib.Path, playbook: str, missing: tuple[str, ...]
) -> None:
    groups: dict[str, Any] = {name: {FIRST[name]: {}} for name in GROUPS if name not in missing}
    confirmed = "--extra-vars=uninstall_confirmed=true"
    run = recorder.play(tmp_path, groups, confirmed, playbook=f"playbooks/{playbook}.yml")
    assert run.status != 0
    assert run.entries == []
    assert f"Group {missing[0]} has no hosts" in " ".join(run.output.split())


@pytest.mark.parametrize("missing", GROUPS)
def test_a_limited_rollout_without_one_of_the_groups_is_refused(
    tmp_path: pathlib.Path, missing: str
) -> None:
    groups: dict[str, Any] = {name: {FIRST[name]: {}} for name in GROUPS if name != missing}
    [host] = [FIRST[name] for name in GROUPS if name != missing]
    run = recorder.play(tmp_path, groups, f"--limit={host}")
    assert run.status != 0
    assert run.entries == []
    assert f"Group {missing} has no hosts" in " ".join(run.output.split())
