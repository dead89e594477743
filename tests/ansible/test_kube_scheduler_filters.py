"""Merging the extender into what a scheduler has keeps the rest, and is quiet when repeated."""

import importlib.util
import types
from typing import Any

import pytest

from tests.ansible import layout

ENTRY = {
    "urlPrefix": "https://127.0.0.1:3456/scheduler",
    "filterVerb": "filter",
    "bindVerb": "bind",
    "managedResources": [{"name": "tencent.com/vcuda-core", "ignoredByScheduler": False}],
}
STEERING = {"urlPrefix": "https://127.0.0.1:3456/scheduler", "prioritizeVerb": "prioritize"}
NEW = {
    "api_version": "kubescheduler.config.k8s.io/v1",
    "kubeconfig": "/etc/kubernetes/scheduler.conf",
}
PATH = "/etc/kubernetes/scheduler-config.yaml"


@pytest.fixture(scope="module")
def filters() -> types.ModuleType:
    """Load the role's plugin as Ansible does: by its path."""
    path = layout.ROOT / "roles/kube_scheduler/filter_plugins/kube_scheduler.py"
    spec = importlib.util.spec_from_file_location("kube_scheduler_filters", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def manifest() -> dict[str, Any]:
    return {
        "metadata": {"name": "kube-scheduler", "labels": {"tier": "control-plane"}},
        "spec": {
            "containers": [
                {
                    "name": "kube-scheduler",
                    "command": ["kube-scheduler", "--leader-elect=true", "--config=/old"],
                    "volumeMounts": [
                        {"name": "kubeconfig", "mountPath": "/etc/kubernetes/scheduler.conf"}
                    ],
                }
            ],
            "volumes": [
                {"name": "kubeconfig", "hostPath": {"path": "/etc/kubernetes/scheduler.conf"}}
            ],
        },
    }


def test_a_configuration_made_from_nothing_elects_a_leader_and_looks_at_every_node(
    filters: types.ModuleType,
) -> None:
    made = filters.with_extender(None, [ENTRY], **NEW)
    assert made["leaderElection"] == {"leaderElect": True}
    assert made["clientConnection"] == {"kubeconfig": "/etc/kubernetes/scheduler.conf"}
    assert made["percentageOfNodesToScore"] == 100
    assert made["extenders"] == [ENTRY]


def test_profiles_and_other_extenders_of_the_site_stay(filters: types.ModuleType) -> None:
    other = {"urlPrefix": "http://127.0.0.1:9999/other", "filterVerb": "filter"}
    found = {
        "apiVersion": "x/v1beta3",
        "profiles": [{"schedulerName": "mine"}],
        "extenders": [other],
    }
    made = filters.with_extender(found, [ENTRY], **NEW)
    assert made["apiVersion"] == "x/v1beta3"
    assert made["profiles"] == [{"schedulerName": "mine"}]
    assert made["extenders"] == [other, ENTRY]
    assert found["extenders"] == [other]


def test_merging_twice_is_merging_once(filters: types.ModuleType) -> None:
    once = filters.with_extender({"extenders": [{**ENTRY, "weight": 7}]}, [ENTRY], **NEW)
    assert filters.with_extender(once, [ENTRY], **NEW) == once
    assert once["extenders"] == [ENTRY]


@pytest.mark.parametrize(
    "stale",
    [
        {**ENTRY, "urlPrefix": "https://127.0.0.1:9999/scheduler"},
        {**ENTRY, "urlPrefix": "http://127.0.0.1:3456/scheduler/"},
        # the original's, as its documentation has it
        {"urlPrefix": "http://127.0.0.1:3456/scheduler", "filterVerb": "predicates"},
    ],
)
def test_a_stale_entry_of_ours_is_replaced_wherever_it_calls(
    filters: types.ModuleType, stale: dict[str, Any]
) -> None:
    steering = {**STEERING, "urlPrefix": stale["urlPrefix"]}
    made = filters.with_extender({"extenders": [steering, stale]}, [ENTRY], **NEW)
    assert made["extenders"] == [ENTRY]


def test_both_entries_are_installed_and_the_second_one_goes_when_it_is_not_wanted(
    filters: types.ModuleType,
) -> None:
    both = filters.with_extender(None, [ENTRY, STEERING], **NEW)
    assert both["extenders"] == [ENTRY, STEERING]
    assert filters.with_extender(both, [ENTRY], **NEW)["extenders"] == [ENTRY]


def test_a_profile_that_samples_nodes_is_told_to_look_at_all(filters: types.ModuleType) -> None:
    found = {"profiles": [{"schedulerName": "a", "percentageOfNodesToScore": 5}, {}]}
    made = filters.with_extender(found, [ENTRY], **NEW)
    assert made["profiles"] == [{"schedulerName": "a", "percentageOfNodesToScore": 100}, {}]


def test_a_second_extender_that_binds_is_refused_by_name(filters: types.ModuleType) -> None:
    other = {"urlPrefix": "http://127.0.0.1:9999/other", "bindVerb": "bind"}
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:9999/other has a bindVerb"):
        filters.with_extender({"extenders": [other]}, [ENTRY], **NEW)


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("", False),
        ("extenders: [{urlPrefix: 'http://127.0.0.1:3456/scheduler'}]", True),
        ('{"extenders": [{"urlPrefix": "http://127.0.0.1:9999/other"}]}', False),
        ("extenders: [{managedResources: [{name: tencent.com/vcuda-core}]}]", True),
    ],
)
def test_a_file_is_ours_when_it_calls_our_extender(
    filters: types.ModuleType, text: str, ours: bool
) -> None:
    assert filters.has_ours(text, [ENTRY]) is ours


def test_a_static_pod_mounts_the_certificates_while_there_are_some(
    filters: types.ModuleType,
) -> None:
    folder = "/etc/gpustack/pki/scheduler"
    once = filters.with_flags(manifest(), [f"--config={PATH}"], PATH, "content", folder)
    assert filters.with_flags(once, [f"--config={PATH}"], PATH, "content", folder) == once
    volume = {"path": folder, "type": "Directory"}
    assert once["spec"]["volumes"][-1]["hostPath"] == volume
    without = filters.with_flags(once, [f"--config={PATH}"], PATH, "content")
    assert filters.CERTIFICATES_VOLUME not in str(without)


def test_a_static_pod_gets_flag_mount_and_the_files_checksum(filters: types.ModuleType) -> None:
    made = filters.with_flags(manifest(), [f"--config={PATH}"], PATH, "content")
    (container,) = made["spec"]["containers"]
    assert container["command"] == ["kube-scheduler", "--leader-elect=true", f"--config={PATH}"]
    assert container["volumeMounts"][-1] == {
        "name": filters.VOLUME, "mountPath": PATH, "readOnly": True,
    }  # fmt: skip
    assert made["spec"]["volumes"][-1]["hostPath"] == {"path": PATH, "type": "File"}
    assert made["metadata"]["labels"] == {"tier": "control-plane"}


def test_a_static_pod_changes_when_the_files_content_does_and_not_otherwise(
    filters: types.ModuleType,
) -> None:
    once = filters.with_flags(manifest(), [f"--config={PATH}"], PATH, "content")
    assert filters.with_flags(once, [f"--config={PATH}"], PATH, "content") == once
    assert filters.with_flags(once, [f"--config={PATH}"], PATH, "other") != once


def test_a_manifest_without_a_scheduler_is_refused_by_name(filters: types.ModuleType) -> None:
    with pytest.raises(ValueError, match=r"spec\.containers: none has kube-scheduler"):
        filters.with_flags({"spec": {"containers": [{"command": ["etcd"]}]}}, [], PATH, "")
