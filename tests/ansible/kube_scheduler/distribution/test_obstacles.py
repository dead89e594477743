"""What keeps k3s or RKE2 from reading our argument file is found, and named with what to do."""

import pytest

from tests.ansible import plugins

FILTERS = plugins.load("roles/kube_scheduler/filter_plugins/kube_scheduler_distribution.py")
MAIN = "/etc/rancher/rke2/config.yaml"
OURS = f"{MAIN}.d/90-gpustack.yaml"
EARLY, LATE = f"{MAIN}.d/10-site.yml", f"{MAIN}.d/95-site.yaml"
CONFIG = "/etc/rancher/rke2/gpustack-scheduler.yaml"
WANTED = {
    "kube-scheduler-arg+": [f"config={CONFIG}"],
    "kube-scheduler-extra-mount+": ["/pki:/pki:ro"],
}
FINE = {
    "none": (MAIN, ""),
    "others": (LATE, "kubelet-arg: [max-pods=200]\nkube-scheduler-argument: [x]\n"),
    "earlier": (EARLY, "kube-scheduler-arg: [v=2, kubeconfig=/x]\n"),
    "main": (MAIN, "kube-scheduler-arg: v=2\n"),
    "added": (LATE, "kube-scheduler-arg+: [v=2]\nkube-scheduler-extra-mount+: ['/a:/a']\n"),
    "same": (EARLY, f"kube-scheduler-arg: ['--config={CONFIG}']\n"),
    "ours": (OURS, "kube-scheduler-arg: [config=/old]\n"),
}
BAD = {
    "arguments": (LATE, "kube-scheduler-arg: [v=2]\n", f"{OURS}, and its kube-scheduler-arg "),
    "mounts": (LATE, "kube-scheduler-extra-mount: [/a:/a]\n", "its kube-scheduler-extra-mount "),
    "config": (MAIN, "kube-scheduler-arg: [config=/mine]\n", "kube_scheduler_config_path to that"),
    "scalar": (EARLY, "kube-scheduler-arg+: --config=/mine\n", "configuration /mine already"),
    "no YAML": (EARLY, "token: 'a-secret\n", "is no YAML: mend this file"),
    "no keys": (EARLY, "[a-secret]\n", "has no keys: mend this file"),
}


@pytest.mark.parametrize("case", FINE)
def test_a_file_that_leaves_ours_is_no_obstacle(case: str) -> None:
    path, text = FINE[case]
    assert FILTERS.obstacle({path: text}, OURS, WANTED) == ""


@pytest.mark.parametrize("case", BAD)
def test_an_obstacle_is_named_by_its_file_without_secrets(case: str) -> None:
    path, text, why = BAD[case]
    said = FILTERS.obstacle({MAIN: "", path: text}, OURS, WANTED)
    assert said.startswith(path)
    assert why in said
    assert "a-secret" not in said
