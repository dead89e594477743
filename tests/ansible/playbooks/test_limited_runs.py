"""A run of a part of the hosts says which others it needs."""

import json
import pathlib
import sys

import pytest

from tests.ansible.rendering import ansible, words

pytestmark = pytest.mark.long


# The playbook hands the identity on, so a value of the inventory never counts.
def test_a_run_without_the_first_control_plane_names_it(tmp_path: pathlib.Path) -> None:
    variables = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
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
