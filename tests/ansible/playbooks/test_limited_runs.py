"""A run of a part of the hosts says which others it needs."""

import json
import pathlib
from typing import Any

import pytest

from tests.ansible.playbooks import recorder
from tests.ansible.rendering import ansible, words

pytestmark = pytest.mark.long

AWAY = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


# The playbook hands the identity on, so a value of the inventory never counts.
def test_a_run_without_the_first_control_plane_names_it(tmp_path: pathlib.Path) -> None:
    variables = {
        "ansible_connection": "local",
        "ansible_become": False,
        "gpustack_extender_kubeconfig": {"clusters": [{"name": "of the inventory"}]},
    }
    group = {"hosts": {"cp1": {}, "cp2": {}}, "vars": variables}
    (tmp_path / "hosts.yml").write_text(json.dumps({"kube_control_plane": group}))
    done = ansible(
        "ansible-playbook", f"--inventory={tmp_path}/hosts.yml", "--limit=cp2",
        "playbooks/control_plane.yml",
    )  # fmt: skip
    assert done.returncode != 0
    assert "a limited run needs the first control-plane host (cp1), too." in words(done)
    assert "changed=0" in done.stdout


@pytest.mark.parametrize(
    ("limit", "other", "installed", "refused"),
    [
        ("cp1,gpu1", {}, False, True),
        pytest.param("cp1", {}, True, False, marks=pytest.mark.nightly),
        ("gpu1", {}, False, False),
        pytest.param("all", {}, False, False, marks=pytest.mark.nightly),
        # it can't be asked, and cards have to be added while it is away
        ("cp1,gpu1", AWAY, False, False),
    ],
)
def test_a_run_that_leaves_out_a_fresh_control_plane_names_it(
    tmp_path: pathlib.Path, limit: str, other: dict[str, Any], installed: bool, refused: bool
) -> None:
    unit = tmp_path / "gpustack-extender.service"
    if installed:
        unit.touch()
    groups: dict[str, dict[str, Any]] = {
        "kube_control_plane": {"cp1": {}, "cp2": other},
        "gpu_nodes": {"gpu1": {}},
    }
    run = recorder.play(
        tmp_path, groups, f"--limit={limit}",
        f"--extra-vars=__preflight_extender_unit={unit}",
        playbook="playbooks/preflight.yml",
    )  # fmt: skip
    assert (run.status != 0) is refused, run.output
    assert ("cp2 has no extender" in " ".join(run.output.split())) is refused
