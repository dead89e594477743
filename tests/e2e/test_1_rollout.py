"""What site.yml leaves on hosts that never saw the product."""

import pathlib
import re

import pytest

from tests.cluster import workloads
from tests.cluster.drift import differences
from tests.cluster.kubectl import wait_for
from tests.cluster.site import Site
from tests.testbed import root

pytestmark = pytest.mark.testbed

SCHEDULER = "/etc/kubernetes/scheduler-config.yaml"
# What a hand changes on a host.
EDITS = {
    "a setting of the agent": ("gpu1", "sed -i s/info/debug/ /etc/gpustack/agent.yml"),
    "rights of a file": ("gpu1", "chmod 666 /etc/systemd/system/gpustack-mount.service"),
    "a unit": ("gpu1", "echo '# hand' >> /etc/systemd/system/gpustack-agent.service"),
    "a unit that doesn't start": ("gpu1", "systemctl disable gpustack-device.service"),
    "modules": ("gpu1", "rm /etc/modules-load.d/gpustack.conf"),
    "a script": ("gpu1", "echo '# hand' >> /opt/gpustack/libexec/gpustack-device"),
    "a file of the hook": ("gpu2", "rm /var/lib/gpustack/hooks/*/libvcuda.so"),
    "a daemon that is stopped": ("gpu2", "systemctl stop gpustack-agent.service"),
    "a setting of the extender": ("cp1", "echo '# hand' >> /etc/gpustack/extender.yml"),
    "the scheduler's entry": ("cp1", f"sed -i s/httpTimeout/httpTimeOut/ {SCHEDULER}"),
}
DELETED = (
    ("validatingadmissionpolicy", "gpustack-nodes"),
    ("clusterrolebinding", "gpustack-extender"),
)
# The roles that would change it back; python_service restarts daemons whose files were edited.
ROLES = {
    "cp1": ["cluster_objects"] * 2 + ["gpustack_extender", "kube_scheduler", "python_service"],
    "gpu1": ["gpustack_agent"] * 3 + ["nvidia_uvm"] * 3 + ["python_service"],
    "gpu2": ["gpustack_agent", "gpustack_hook"],
}
ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.nightly  # molecule's idempotence, on hosts that tenants used
def test_a_run_after_the_first_changes_nothing(site: Site) -> None:
    again = site.playbook("site")
    changes = {host: recap.changes for host, recap in again.items() if recap.changed}
    assert changes == {}, "the run changed hosts"


def test_nodes_offer_a_hundred_cores_and_320_memory_units_a_card(site: Site) -> None:
    for node in site.kubectl.items("nodes"):
        allocatable = node["status"]["allocatable"]
        # two 80 GiB cards: 2 x 100 cores, 2 x 85899345920 / 268435456 units
        assert allocatable["tencent.com/vcuda-core"] == "200"
        assert allocatable["tencent.com/vcuda-memory"] == "640"


@pytest.mark.nightly  # molecule's verify, on two hosts
def test_verify_passes_with_a_pod_of_each_kind_on_each_host(site: Site) -> None:
    image = f"--extra-vars=cluster_objects_trial_image={workloads.CUDA_IMAGE}"
    recap = site.playbook("verify", image)
    assert all(line.failed == 0 and line.changed == 0 for line in recap.values())
    # The kubelet takes a pod off the API server only after its folders.
    wait_for("the pods to be gone", lambda: not site.kubectl.items("pods"))


def test_hosts_have_the_versions_that_the_reference_names(site: Site) -> None:
    page = (ROOT / "docs/reference/kubernetes.md").read_text("utf-8")
    debian = {"bookworm": 12, "trixie": 13}[root.suite()]
    for name, host, package in (
        ("etcd", "cp1", "etcd-server"),
        ("containerd", "gpu1", "containerd"),
    ):
        shown = site.on(host, "dpkg-query", "--show", "--showformat=${Version}", package)
        [version] = re.findall(r"^\d+\.\d+\.\d+", shown)
        assert f"| {name} of Debian {debian} | {version} |" in page


@pytest.mark.nightly
def test_drift_finds_each_edit_by_hand_and_nothing_else(site: Site, tmp_path: pathlib.Path) -> None:
    assert differences(site, tmp_path) == {}
    try:
        for host, command in EDITS.values():
            site.on(host, "sh", "-c", command)
        for kind, name in DELETED:
            site.kubectl.run("delete", kind, name)
        assert differences(site, tmp_path) == ROLES
    finally:
        # site.yml leaves a build's files alone, which containers may have mounted
        site.on("gpu2", "sh", "-c", "rm -rf /var/lib/gpustack/hooks/*")
        site.playbook("site")
    assert differences(site, tmp_path) == {}
