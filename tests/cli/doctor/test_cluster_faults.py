"""Faults planted in a cluster: each is found by its own check, and by no other."""

import json
import pathlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpustack.cli.doctor.cluster.checks import CHECKS
from gpustack.wire.nodes import encode_devices
from tests.cli.doctor import good_cluster
from tests.cli.doctor.good_cluster import (
    BINDINGS,
    LABELS,
    LEASES,
    POLICIES,
    SYSTEM,
    Fault,
    ask,
    bad,
    kubeconfig,
    lease,
)
from tests.cli.snapshots import CARDS, KEYS, NODE, half_bad, node, pod, quota
from tests.fakes.kube_api import FakeKubeApi


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    with FakeKubeApi() as server:
        good_cluster.fill(server)
        yield server


def of_node(patch: dict[str, Any]) -> Fault:
    return lambda api: api.edit("nodes", NODE.name, patch)


def record(value: object) -> Fault:
    text = value if isinstance(value, str) else json.dumps(value)
    return of_node({"metadata": {"annotations": {KEYS.gpu_devices: text}}})


def closed(reason: str) -> Fault:
    """Close a card, whose part of the amounts the kubelet takes away."""
    first = replace(CARDS[0], healthy=False, reason=reason)
    text = encode_devices(replace(NODE, cards=(first, CARDS[1])))
    amounts = {KEYS.vcuda_core: "100", KEYS.vcuda_memory: str(CARDS[1].memory_units)}
    changed = {"annotations": {KEYS.gpu_devices: text}}
    return of_node({"metadata": changed, "status": {"allocatable": amounts}})


def of_originals(api: FakeKubeApi) -> None:
    other = node(labels=LABELS) | {"status": {"allocatable": {KEYS.vcuda_core: "200"}}}
    other["metadata"] |= {"name": "gpu2", "annotations": {}}
    api.create("nodes", other)


def without_cards(api: FakeKubeApi) -> None:
    api.create("nodes", {"metadata": {"name": "gpu2", "labels": LABELS}})


def without_leader(api: FakeKubeApi) -> None:
    api.delete(LEASES, "kube-scheduler", SYSTEM)


def second_scheduler(api: FakeKubeApi) -> None:
    api.create(LEASES, lease("gpustack-scheduler", age_seconds=7200))


def without_pool(api: FakeKubeApi) -> None:
    other = good_cluster.good_node()
    other["metadata"] |= {"name": "gpu2", "labels": {"nvidia-device-enable": "enable"}}
    api.create("nodes", other)


def undecided(api: FakeKubeApi) -> None:
    item = pod("undecided", 50, 8)
    item["spec"]["nodeName"] = NODE.name
    api.create("pods", item)


def audit_only(api: FakeKubeApi) -> None:
    actions = {"spec": {"validationActions": ["Audit"]}}
    api.edit(BINDINGS, "gpustack-decisions", actions)


def of_policy(patch: dict[str, Any]) -> Fault:
    return lambda api: api.edit(POLICIES, "gpustack-requests", {"spec": patch})


def of_pod(annotations: dict[str, str]) -> Fault:
    return lambda api: api.edit("pods", "holder", {"metadata": {"annotations": annotations}})


def hiding(api: FakeKubeApi) -> None:
    item = pod("hiding", 10, 2, held=True)
    item["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "//etc/vcuda"}]
    api.create("pods", item)


def of_quota(text: str) -> Fault:
    return lambda api: api.edit("configmaps", "gpuquota", {"data": {"gpu_quota": text}}, SYSTEM)


def not_ready(status: str) -> Fault:
    return of_node({"status": {"conditions": [{"type": "Ready", "status": status}]}})


FAULTS: dict[str, tuple[Fault, str, str, str]] = {
    "a node is not ready": (not_ready("Unknown"), "node-ready", "fail", "NotReady"),
    "a node is cordoned": (
        of_node({"spec": {"unschedulable": True}}), "node-ready", "warn", "cordoned",
    ),
    "a node lacks memory": (
        of_node({"status": {"conditions": [{"type": "MemoryPressure", "status": "True"}]}}),
        "node-ready", "warn", "memory-pressure",
    ),
    "a node lacks its label": (
        of_node({"metadata": {"labels": {"nvidia-device-enable": None}}}),
        "node-label", "warn", "lacks the label",
    ),
    "a node has no record": (without_cards, "node-record", "fail", "has no annotation"),
    "a record is no JSON": (record("{"), "node-record", "fail", "is not JSON"),
    "a record is of the next version": (
        record({"version": 2, "devices": [], "links": []}), "node-record", "warn", "version 2",
    ),
    "a record is of a later version": (
        record({"version": 7, "devices": [], "links": []}), "node-record", "fail", "version 7",
    ),
    "a node offers too little": (
        of_node({"status": {"allocatable": {KEYS.vcuda_core: "100"}}}),
        "node-capacity", "fail", f"offers 100 {KEYS.vcuda_core}, not 200",
    ),
    "an agent is silent": (
        of_node({"status": {"allocatable": {KEYS.vcuda_core: "0", KEYS.vcuda_memory: "0"}}}),
        "node-capacity", "fail", f"its agent is silent (AgentSilent): offers 0 {KEYS.vcuda_core}",
    ),
    "a node offers nonsense": (
        of_node({"status": {"allocatable": {KEYS.vcuda_memory: "\x1b[31m"}}}),
        "node-capacity", "fail", f"no whole number {KEYS.vcuda_memory}",
    ),
    "a card is lost": (closed("FallenOffTheBus"), "node-cards", "fail", "card 0 is closed"),
    "a card is quarantined": (closed("Quarantined"), "node-cards", "warn", "Quarantined"),
    "NVIDIA's plugin serves cards": (
        of_node({"status": {"allocatable": {"nvidia.com/gpu": "2"}}}),
        "other-plugins", "fail", "offers 2 nvidia.com/gpu",
    ),
    "the original serves cards": (
        of_originals, "other-plugins", "warn", "no agent describes its cards",
    ),
    "a node is in no pool": (without_pool, "node-pools", "warn", "lacks the label"),
    "a quota names a pool without nodes": (
        of_quota('{"default": {"quota": {"T4": 2}, "pool": ["train", "tarin"]}}'),
        "node-pools", "warn", "the pool tarin, in which no node is",
    ),
    "no scheduler leads": (without_leader, "scheduler-lease", "warn", "no scheduler has a lease"),
    "a scheduler has stopped": (second_scheduler, "scheduler-lease", "fail", "renewed it 2h ago"),
    "a policy is missing": (
        lambda api: api.delete(POLICIES, "gpustack-nodes"),
        "admission-policies", "fail", "is missing",
    ),
    "a policy is not bound": (
        lambda api: api.delete(BINDINGS, "gpustack-nodes"),
        "admission-policies", "fail", "no ValidatingAdmissionPolicyBinding denies by it",
    ),
    "a policy only audits": (audit_only, "admission-policies", "fail", "denies by it"),
    "a policy lets errors pass": (
        of_policy({"failurePolicy": "Ignore"}), "admission-policies", "fail", "failurePolicy",
    ),
    "a policy is another release's": (
        of_policy({"variables": []}), "admission-policies", "warn", "another release's",
    ),
    "a quota names a model that no card is": (
        of_quota('{"default": {"quota": {"T4": 2, "A10": 1}, "pool": ["train"]}}'),
        "quota", "warn", "the model A10, which no node has",
    ),
    "the quota is broken": (of_quota("{"), "quota", "fail", "data.gpu_quota"),
    "a pod's key can't be read": (
        of_pod({KEYS.gpu_topology: "nvlnk"}), "pod-requests", "warn", "nvlnk",
    ),
    "a pod's mount hides its limits": (
        hiding, "pod-requests", "warn", "volumeMounts //etc/vcuda hides",
    ),
    "a running pod could not be made anew": (
        lambda api: api.create("pods", half_bad("old")), "pod-requests", "warn", "without compute",
    ),
    "a bound pod has no decision": (undecided, "pod-decisions", "fail", "decision"),
    "a pod waits": (
        lambda api: api.create("pods", pod("web", 50, 8)),
        "pods-waiting", "warn", "1 pod waits for cards, pod default/web the longest",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_fault_is_found_by_its_own_check_alone(
    api: FakeKubeApi, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    plant, check, level, words = FAULTS[fault]
    plant(api)
    value = ask(capsys, *kubeconfig(api, tmp_path), status=1 if level == "fail" else 0)
    assert bad(value) == [(check, level)]
    (found,) = [each for each in value["findings"] if each["level"] != "ok"]
    assert words in found["found"]
    assert found["why"]
    assert found["mend"]
    assert found["found"].isprintable()


def test_each_check_of_a_cluster_finds_a_fault_of_the_list() -> None:
    # The API server's own faults need a server that answers otherwise: test_cluster.py.
    assert {check for _, check, _, _ in FAULTS.values()} | {"api-server"} == {
        each.name for each in CHECKS
    }


def test_a_good_cluster_has_nothing_to_mend(
    api: FakeKubeApi, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value = ask(capsys, *kubeconfig(api, tmp_path), status=0)
    assert bad(value) == []
    assert value["not_checked"] == []
    assert [each["check"] for each in value["findings"]] == [each.name for each in CHECKS]
    assert value["sums"] == {"ok": len(CHECKS), "warn": 0, "fail": 0}
    assert {request.method for request in api.requests} == {"GET"}


def test_two_faults_are_found_by_two_checks(
    api: FakeKubeApi, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.edit("nodes", NODE.name, {"spec": {"unschedulable": True}})
    api.edit("configmaps", "gpuquota", quota("[]"), SYSTEM)
    value = ask(capsys, *kubeconfig(api, tmp_path), status=1)
    assert bad(value) == [("quota", "fail"), ("node-ready", "warn")]
