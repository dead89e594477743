"""A site that comes from the original keeps its scheduler's file, and gets it back."""

import json
import pathlib

import pytest
import yaml

from tests.ansible.kube_scheduler.scheduler_host import GOOD, Host, Make
from tests.ansible.rendering import words

pytestmark = pytest.mark.long

# As gpu-admission's own documentation has its entry; it listens where our extender does.
ORIGINAL = {"urlPrefix": GOOD, "apiVersion": "v1beta1", "filterVerb": "predicates"}
POLICY = {
    "kind": "Policy",
    "apiVersion": "v1",
    "priorities": [{"name": "MostRequestedPriority", "weight": 7}],
    "extenders": [ORIGINAL],
}
MANAGED = {"managedResources": [{"name": "tencent.com/vcuda-core"}]}
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "percentageOfNodesToScore": 30,
    "extenders": [{**ORIGINAL, "urlPrefix": "http://192.0.2.9:3456/scheduler", **MANAGED}],
}


def play_policy(folder: pathlib.Path, policy: str) -> str:
    """Run preflight on a host of 1.22 whose scheduler reads this Policy."""
    file = folder / "policy.json"
    host = Host(
        folder,
        version="v1.22.17",
        command=f"{folder}/bin/kube-scheduler --policy-config-file={file}",
    )
    file.write_text(policy)
    said = {"kube_scheduler_form": "policy", "kube_scheduler_policy_path": str(file)}
    done = host.play("preflight", **said)
    assert done.returncode == 0, done.stdout
    return words(done)


def test_preflight_says_what_a_policy_takes_from_other_pods(tmp_path: pathlib.Path) -> None:
    other = {"urlPrefix": "http://127.0.0.1:9999/storage", "filterVerb": "filter"}
    predicates = [{"name": "GeneralPredicates"}, {"name": "CheckVolumeBinding"}]
    found = {**POLICY, "predicates": predicates, "extenders": [ORIGINAL, other]}
    said = play_policy(tmp_path, json.dumps(found))
    assert "look at CheckVolumeBinding, http://127.0.0.1:9999/storage, for any pod" in said


@pytest.mark.nightly
def test_a_policy_that_calls_the_original_is_kept(tmp_path: pathlib.Path) -> None:
    policy = tmp_path / "policy.json"
    command = f"{tmp_path}/bin/kube-scheduler --policy-config-file={policy}"
    host = Host(tmp_path, version="v1.22.17", command=command)
    policy.write_text(json.dumps(POLICY))
    said = {"kube_scheduler_form": "policy", "kube_scheduler_policy_path": str(policy)}
    try:
        host.start_unit()
        done = host.play(**said)
        assert done.returncode == 0, done.stdout
        assert "MostRequestedPriority" not in policy.read_text()
        for _ in range(2):
            assert host.play("uninstall", **said).returncode == 0
            left = json.loads(policy.read_text())
            assert left == {**POLICY, "extenders": []}, "every pod would wait for nobody's answer"
            assert json.loads((tmp_path / "policy.json.before-gpustack").read_text()) == POLICY
    finally:
        host.stop()


@pytest.mark.nightly
def test_a_configuration_that_calls_the_original_comes_back(make: Make) -> None:
    host = make("unit")
    host.config.write_text(yaml.safe_dump(CONFIGURATION))
    done = host.play()
    assert done.returncode == 0, done.stdout
    assert host.play("uninstall").returncode == 0
    assert yaml.safe_load(host.config.read_text()) == CONFIGURATION


# Its writes are refused from the policies on, and the schedulers change one after the other.
@pytest.mark.parametrize(
    ("accounts", "accepted", "passes"),
    [
        (["system:serviceaccount:kube-system:gpu-manager"], [], False),
        (["system:serviceaccount:kube-system:gpu-admission"], [], True),
        pytest.param([], ["gpu-admission-account"], True, marks=pytest.mark.nightly),
    ],
)
def test_preflight_wants_the_account_of_a_gpu_admission_that_is_called(
    make: Make, accounts: list[str], accepted: list[str], passes: bool
) -> None:
    host = make("unit")
    host.config.write_text(yaml.safe_dump(CONFIGURATION))
    said = {"cluster_objects_trusted_accounts": accounts, "preflight_accepted_findings": accepted}
    done = host.play("preflight", **said)
    assert (done.returncode == 0) is passes, done.stdout
    assert ("names no account for it" in words(done)) is not passes


@pytest.mark.nightly
def test_a_configuration_with_our_entries_calls_no_original(make: Make) -> None:
    host = make("unit")
    host.config.write_text(yaml.safe_dump(CONFIGURATION))
    assert host.play(kube_scheduler_steer_other_pods=True).returncode == 0
    done = host.play("preflight", kube_scheduler_steer_other_pods=True)
    assert done.returncode == 0, done.stdout
