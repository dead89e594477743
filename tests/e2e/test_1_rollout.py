"""What site.yml leaves on hosts that never saw the product."""

import pathlib
import re
from typing import Any

import pytest

from gpustack.wire.files import certificates
from tests.cluster import workloads
from tests.cluster.drift import differences
from tests.cluster.kubectl import wait_for
from tests.cluster.site import Site
from tests.testbed import root

pytestmark = pytest.mark.testbed

SCHEDULER = "/etc/kubernetes/scheduler-config.yaml"
RENEWAL = "/opt/gpustack/tokens/settings.json"
FILE = "/etc/gpustack/tokens/gpustack-extender"
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


def test_the_extenders_token_ends_and_its_host_renews_it(site: Site) -> None:
    secrets = {each["metadata"]["name"]: each["type"] for each in secrets_of(site)}
    assert list(secrets.values()) == ["Opaque"]
    assert all(name.startswith("gpustack-extender.cp1-") for name in secrets)
    before = token_of(site)
    assert lasting(before) == 72 * 3600
    try:
        # as if a third were used: it lasts longer than the site wants
        site.on("cp1", "sed", "-i", "s/259200/255600/", RENEWAL)
        site.on("cp1", "systemctl", "start", "gpustack-token.service")
    finally:
        site.on("cp1", "sed", "-i", "s/255600/259200/", RENEWAL)
    after = token_of(site)
    assert lasting(after) == 71 * 3600
    assert place_share(site, "renewed")
    assert site.on("cp1", "stat", "-c", "%U:%G %a", FILE) == "root:gpustack-extender 640\n"


@pytest.mark.nightly
def test_rotate_ends_tokens_while_the_extender_goes_on(site: Site) -> None:
    annotations = {"kubernetes.io/service-account.name": "gpustack-extender"}
    metadata = {"name": "gpustack-extender", "namespace": "kube-system", "annotations": annotations}
    endless = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    site.kubectl.apply({**endless, "type": "kubernetes.io/service-account-token"})
    before, process = token_of(site), extender_process(site)
    (bound,) = [each for each in secrets_of(site) if each["type"] == "Opaque"]
    site.playbook("rotate")
    (found,) = secrets_of(site)
    assert found["metadata"]["name"] == bound["metadata"]["name"]
    assert found["metadata"]["uid"] != bound["metadata"]["uid"]
    assert token_of(site) != before
    assert extender_process(site) == process, "it reads the token again by itself"
    assert place_share(site, "rotated")
    recap = site.playbook("site")
    assert not any(line.changed for line in recap.values())


def secrets_of(site: Site) -> list[dict[str, Any]]:
    """Return our accounts' Secrets."""
    found = site.kubectl.items("secrets", "--namespace=kube-system")
    return [each for each in found if each["metadata"]["name"].startswith("gpustack-")]


def token_of(site: Site) -> str:
    return site.on("cp1", "cat", FILE)


def lasting(token: str) -> int:
    """Return for how many seconds a token lasts in all."""
    validity = certificates.token(token)
    assert validity is not None
    return int((validity.ends - validity.begins).total_seconds())


def extender_process(site: Site) -> str:
    return site.on("cp1", "systemctl", "show", "--property=MainPID", "gpustack-extender.service")


def place_share(site: Site, name: str) -> dict[str, Any]:
    """Have the extender place a pod; return it when it runs."""
    site.kubectl.apply(workloads.pod(name, workloads.SHARE))
    return site.running(name)


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
