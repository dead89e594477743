"""Preflight knows the variables of the role that drains nodes."""

import pathlib

import pytest

from tests.ansible.preflight.preflight_host import play

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("part", "name", "value", "named"),
    [
        ("removed_variables", "timeout_second", 60, "has no variable node_maintenance_timeout_se"),
        ("values", "pods", "some", "value of node_maintenance_pods must be one of: gpu, all"),
        ("agreement", "domain", "y.test", "must say the same on every host, and say x.test and y."),
    ],
)
def test_a_wrong_variable_of_a_drain_is_named(
    tmp_path: pathlib.Path, part: str, name: str, value: object, named: str
) -> None:
    status, said = run(tmp_path, part, **{f"node_maintenance_{name}": value})
    assert status != 0
    assert named in said


def test_drain_and_hook_follow_the_agents_domain(tmp_path: pathlib.Path) -> None:
    status, said = run(tmp_path, "agreement")
    assert status == 0, said
    status, said = run(tmp_path, "agreement", gpustack_hook_domain="y.test")
    assert status != 0
    assert "gpustack_hook_domain" in said


def run(folder: pathlib.Path, part: str, **variables: object) -> tuple[int, str]:
    """Run a part of preflight for a host of the group gpu_nodes with the domain x.test."""
    agent = {"gpustack_agent_domain": "x.test"}
    groups = folder / "groups.yml"
    groups.write_text("gpu_nodes: {hosts: {gpu1: {}}}")
    return play(folder, part, {**agent, **variables}, f"--inventory={groups}")
