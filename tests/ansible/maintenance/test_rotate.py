"""rotate.yml changes one control plane after another, with a restart after each step."""

import pathlib
from typing import Any

import pytest

from tests.ansible.playbooks import recorder

pytestmark = pytest.mark.long

TOKENS, REMOVE = "gpustack_extender/tokens", "cluster_objects/remove_tokens"
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
    # A scheduler of our own restarts with a kubeconfig that names a token: it is there before.
    steps = (TOKENS, TRUST, RESTART, FINISH, RESTART, VERIFY)
    done = [(step, host) for host in ("cp1", "cp2") for step in steps]
    assert came(run) == [*done, (REMOVE, "cp1")]
    assert {one.batch for one in run.entries if one.role == TRUST} == {("cp1",), ("cp2",)}


@pytest.mark.parametrize("kind", ["fails", "vanishes"])
def test_a_host_that_fails_keeps_the_authority_that_signs(
    tmp_path: pathlib.Path, kind: str
) -> None:
    run = rotate(tmp_path, cp1={kind: [RESTART]})
    assert run.status != 0
    # Both are still trusted, and the next control plane is as it was. Its token of 0.1.0 is good.
    assert came(run) == [(TOKENS, "cp1"), (TRUST, "cp1")]


def test_tokens_without_an_end_stay_while_a_control_plane_is_left(tmp_path: pathlib.Path) -> None:
    run = rotate(tmp_path, "--limit=cp1")
    assert run.status == 0, run.output
    assert (VERIFY, "cp1") in came(run)
    assert REMOVE not in [role for role, _ in came(run)]
