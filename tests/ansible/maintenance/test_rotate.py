"""rotate.yml changes one control plane after another, with a restart after each step."""

import pathlib
from typing import Any

import pytest

from tests.ansible.playbooks import recorder

pytestmark = pytest.mark.long

TRUST, FINISH = "gpustack_extender/trust", "gpustack_extender/finish"
VERIFY, RESTART = "gpustack_extender/verify", "kube_scheduler"


def rotate(folder: pathlib.Path, *arguments: str, **variables: Any) -> recorder.Run:
    """Run the playbook on two control planes and a GPU host."""
    groups = {
        "kube_control_plane": {name: variables.get(name, {}) for name in ("cp1", "cp2")},
        "gpu_nodes": {"gpu1": {}},
    }
    return recorder.play(folder, groups, *arguments, playbook="playbooks/rotate.yml")


def came(run: recorder.Run) -> list[tuple[str, str]]:
    return [(one.role, one.host) for one in run.entries if one.role != "cluster_objects"]


def test_each_step_is_followed_by_a_restart_of_the_scheduler(tmp_path: pathlib.Path) -> None:
    run = rotate(tmp_path)
    assert run.status == 0, run.output
    steps = (TRUST, RESTART, FINISH, RESTART, VERIFY)
    assert came(run) == [(step, host) for host in ("cp1", "cp2") for step in steps]
    assert {one.batch for one in run.entries if one.role == TRUST} == {("cp1",), ("cp2",)}


@pytest.mark.parametrize("kind", ["fails", "vanishes"])
def test_a_host_that_fails_keeps_the_authority_that_signs(
    tmp_path: pathlib.Path, kind: str
) -> None:
    run = rotate(tmp_path, cp1={kind: [RESTART]})
    assert run.status != 0
    # Both are still trusted, and the next control plane is as it was.
    assert came(run) == [(TRUST, "cp1")]
