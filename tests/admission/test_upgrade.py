"""An upgrade: an extender older than pods/status writes until its right is taken back."""

import pathlib
import sys
from typing import Final

import pytest
import yaml

from gpustack.adapters.kube import KubeClient
from tests.admission.site import PODS, notes, pod, refusal
from tests.ansible.rendering import ansible
from tests.cluster.kubectl import wait_for
from tests.control_plane import identity, plane
from tests.control_plane.fleet import KEYS

pytestmark = pytest.mark.testbed

_POLICY: Final = (
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/gpustack-extender"
)


def play(folder: pathlib.Path, kubeconfig: pathlib.Path, part: str, **more: object) -> str:
    """Run a part of the role cluster_objects; return how many objects it changed."""
    variables = {
        **more,
        "ansible_python_interpreter": sys.executable,
        "ansible_become": False,
        "cluster_objects_kubeconfig": str(kubeconfig),
    }
    task = {"import_role": {"name": "cluster_objects", "tasks_from": part}}
    document = [{"hosts": "all", "gather_facts": False, "vars": variables, "tasks": [task]}]
    (folder / "play.yml").write_text(yaml.safe_dump(document))
    done = ansible(
        "ansible-playbook", "--inventory=cp1,", "--connection=local", str(folder / "play.yml")
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.rpartition("changed=")[2].split()[0]


def test_an_older_extender_writes_until_its_right_is_taken_back(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "plane"
    folder.mkdir()
    with plane.start(folder) as control:
        admin = KubeClient.from_kubeconfig(control.admin)
        extender = KubeClient.from_kubeconfig(identity.extender_kubeconfig(control))
        # the role as an older release left it
        role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/gpustack-extender"
        rules = admin.get(role)["rules"]
        rules.append({"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]})
        admin.patch(role, {"rules": rules})
        path = f"{PODS}/{admin.post(PODS, pod())['metadata']['name']}"

        def write(number: int) -> str:
            return refusal(lambda: extender.patch(path, notes(**{KEYS.gpu_retry: str(number)})))

        play(tmp_path, control.admin, "main")
        assert write(1) == ""
        assert refusal(lambda: admin.get(_POLICY))
        play(tmp_path, control.admin, "narrow")
        wait_for("the right to be gone", lambda: "cannot patch" in write(2), seconds=30)
        assert refusal(lambda: admin.get(_POLICY)) == ""
        assert play(tmp_path, control.admin, "main") == "0"
