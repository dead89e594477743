"""Preflight sees the objects of a cluster that give out the cards of our nodes."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.ansible import plugins
from tests.ansible.api_server import OFFICIAL, daemonset, device_class, node

filters = plugins.load("roles/preflight/filter_plugins/preflight_gpu_software.py")
accepting = plugins.load("roles/preflight/filter_plugins/preflight_accepted.py")


RESOURCES = ("tencent.com/vcuda-core", "tencent.com/vcuda-memory")


def cluster(
    *daemonsets: dict[str, Any],
    classes: Sequence[dict[str, Any]] = (),
    policies: Sequence[str] = ("gpustack-decisions",),
    trusted: Sequence[str] = (),
    **node_offers: str,
) -> list[str]:
    """Judge a cluster of one GPU node and a node that isn't ours."""
    lists = {
        "nodes": [
            node("gpu1", {"kubernetes.io/os": "linux"}, **node_offers),
            node("other", {"nvidia.com/gpu.present": "true"}, nvidia_gpu="8"),
        ],
        "daemonsets": daemonsets,
        "runtimeclasses": [{"metadata": {"name": "gvisor"}, "handler": "runsc"}],
        "deviceclasses": classes,
        "policies": policies,
    }
    found = filters.cluster_findings(lists, ["gpu1"], RESOURCES, trusted)
    return [each["name"] for each in found]


OPERATOR = {"app.kubernetes.io/managed-by": "gpu-operator"}


@pytest.mark.parametrize(
    ("found", "which"),
    [
        ("nvidia-device-plugin", daemonset("nvidia-device-plugin-daemonset", OFFICIAL)),
        ("nvidia-device-plugin", daemonset("gpus", "localhost:5000/nvidia/k8s-device-plugin:1")),
        (
            "nvidia-device-plugin",
            daemonset("p", "mirror/plugin:1", labels={"name": "nvidia-device-plugin-ds"}),
        ),
        (
            "nvidia-gpu-operator",
            daemonset("nvidia-device-plugin-daemonset", OFFICIAL, labels=OPERATOR),
        ),
        ("nvidia-gpu-operator", daemonset("nvidia-driver-daemonset-5.15", "nvcr.io/nvidia/driver")),
        ("nvidia-dra-driver", daemonset("d", "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.3.0")),
        ("gpu-manager", daemonset("gpu-manager-daemonset", "mirror/x:1")),
        (
            "gpu-manager",
            daemonset("g", "tkestack/gpu-manager:v1.1.5", on={"nvidia-device-enable": "enable"}),
        ),
    ],
)
def test_a_daemonset_of_others_is_known(found: str, which: dict[str, Any]) -> None:
    assert cluster(which) == [f"{found}/kube-system/{which['metadata']['name']}"]


def test_who_accepts_a_users_daemonset_still_hears_of_nvidias() -> None:
    users, real = (daemonset("nvidia-device-plugin", OFFICIAL) for _ in range(2))
    users["metadata"]["namespace"] = "team"
    lists: dict[str, Any] = {
        "nodes": [node("gpu1", {})], "daemonsets": [users, real], "runtimeclasses": (),
        "deviceclasses": (),
    }  # fmt: skip
    found = filters.cluster_findings(lists, ["gpu1"], RESOURCES)
    accepted = ["nvidia-device-plugin", "nvidia-device-plugin/team/nvidia-device-plugin"]
    [left] = accepting.unaccepted(found, accepted)
    assert left.startswith("nvidia-device-plugin/kube-system/nvidia-device-plugin: DaemonSet kube-")


@pytest.mark.parametrize(
    "name", ["nvidia", "nvidia-runtime-class/a/b", "gpu-manager/a", "gpu-manager/a/b/c", ""]
)
def test_a_name_that_no_finding_has_is_refused(name: str) -> None:
    [said] = accepting.unaccepted([], [name, "gpu-manager/a/b", "gpu-admission-account"])
    assert f"preflight_accepted_findings: {name} is the name of no finding" in said


@pytest.mark.parametrize(
    "which",
    [
        daemonset("nvidia-device-plugin-daemonset", OFFICIAL, on={"pool": "other"}),
        daemonset("amdgpu-device-plugin-daemonset", "rocm/k8s-device-plugin:1"),
        daemonset("nvidia-vgpu-manager-daemonset", "mirror/vgpu:1"),
        daemonset("nvidia-dcgm-exporter", "nvcr.io/nvidia/k8s/dcgm-exporter:4"),
        # of NVIDIA's network operator
        daemonset("sriov-device-plugin", "nvcr.io/nvidia/mellanox/sriov-network-device-plugin:v3"),
        daemonset("kube-proxy", "registry.k8s.io/kube-proxy@sha256:0123"),
    ],
)
def test_a_daemonset_that_takes_no_card_of_ours_is_let_be(which: dict[str, Any]) -> None:
    assert cluster(which) == []


def original(namespace: str = "kube-system") -> dict[str, Any]:
    """Return gpu-manager's DaemonSet, which a site keeps on other nodes than ours."""
    made = daemonset("gpu-manager-daemonset", "tkestack/gpu-manager:v1.1.5", on={"old": "true"})
    made["metadata"]["namespace"] = namespace
    made["spec"]["template"]["spec"]["serviceAccountName"] = "gpu-manager"
    return made


def test_the_account_of_a_gpu_manager_elsewhere_has_to_be_trusted() -> None:
    assert cluster(original()) == ["gpu-manager-account"]
    assert cluster(original(), trusted=["system:serviceaccount:kube-system:gpu-manager"]) == []
    assert cluster(original(), policies=[]) == [], "an older API server refuses it nothing"


def test_no_account_of_a_tenants_gpu_manager_is_asked_for() -> None:
    assert cluster(original("tenant")) == []


def affine(field: str, key: str, operator: str, *values: str) -> dict[str, Any]:
    """Return NVIDIA's plugin with a required node affinity, as its Helm chart writes one."""
    plugin = daemonset("nvidia-device-plugin-daemonset", OFFICIAL)
    terms = [{field: [{"key": key, "operator": operator, "values": list(values)}]}]
    plugin["spec"]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }
    return plugin


@pytest.mark.parametrize(
    ("runs", "which"),
    [
        (False, affine("matchExpressions", "nvidia.com/gpu.present", "In", "true")),
        (False, affine("matchExpressions", "nvidia-device-enable", "DoesNotExist")),
        (False, affine("matchExpressions", "nvidia-device-enable", "NotIn", "enable")),
        (False, affine("matchFields", "metadata.name", "In", "other")),
        (True, affine("matchExpressions", "kubernetes.io/os", "Exists")),
        (True, affine("matchFields", "metadata.name", "NotIn", "other")),
        (True, affine("matchExpressions", "cards", "Gt", "3")),
    ],
)
def test_a_plugin_that_is_kept_off_our_nodes_by_affinity_is_let_be(
    runs: bool, which: dict[str, Any]
) -> None:
    name = "nvidia-device-plugin/kube-system/nvidia-device-plugin-daemonset"
    assert cluster(which) == ([name] if runs else [])


def test_a_node_that_offers_nvidias_resources_is_named() -> None:
    assert cluster(nvidia_gpu="8") == ["nvidia-device-plugin"]
    assert cluster(classes=(), **{"nvidia_mig-1g.5gb": "7"}) == ["nvidia-device-plugin"]
    assert cluster(nvidia_gpu="0") == []
    assert cluster(nvidia_GA102GL_A10="1") == ["nvidia-device-plugin"]


def test_a_node_that_offers_nvidias_network_cards_is_let_be() -> None:
    assert cluster(nvidia_hostdev="8", nvidia_sriov_rdma="16") == []


@pytest.mark.parametrize("resource", RESOURCES)
def test_a_device_class_that_serves_our_resource_is_named(resource: str) -> None:
    assert cluster(classes=[device_class("shares", resource)]) == ["dra-extended-resource"]


@pytest.mark.parametrize(
    "resource", [None, "nvidia.com/gpu", "other.test/vcuda-core", "tencent.com/vcuda-core2"]
)
def test_a_device_class_that_serves_no_resource_of_ours_is_let_be(resource: str | None) -> None:
    assert cluster(classes=[device_class("cards", resource)]) == []


def test_of_many_device_classes_with_our_resource_some_are_named() -> None:
    many = [device_class(f"c{each}", RESOURCES[0]) for each in range(1000)]
    assert cluster(classes=many) == ["dra-extended-resource"] * filters.NAMED
