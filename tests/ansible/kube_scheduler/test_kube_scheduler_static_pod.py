"""A static pod is made to read our file, keeps its other parts, and gets its old form back."""

import copy
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ansible import plugins

PATH = "/etc/kubernetes/scheduler-config.yaml"
CERTIFICATES = "/etc/gpustack/pki/scheduler"
FLAG = f"--config={PATH}"
FLAGS = [FLAG, "--policy-config-file=/policy.json", "--use-legacy-policy-config=true"]


@pytest.fixture(scope="module")
def filters() -> types.ModuleType:
    """Load the role's plugin as Ansible does: by its path."""
    return plugins.load("roles/kube_scheduler/filter_plugins/kube_scheduler_static_pod.py")


def manifest(*words: str, mounted: str = "/etc/kubernetes/scheduler.conf") -> dict[str, Any]:
    """Return a manifest as kubeadm writes it, with more words and one file mounted."""
    return {
        "metadata": {"name": "kube-scheduler", "labels": {"tier": "control-plane"}},
        "spec": {
            "containers": [
                {
                    "name": "kube-scheduler",
                    "command": ["kube-scheduler", "--leader-elect=true", *words],
                    "volumeMounts": [{"name": "file", "mountPath": mounted}],
                }
            ],
            "volumes": [{"name": "file", "hostPath": {"path": mounted}}],
        },
    }


def test_the_manifest_gets_flag_mount_and_the_files_checksum(filters: types.ModuleType) -> None:
    made = filters.with_flags(manifest(), [FLAG], PATH, "content")
    (container,) = made["spec"]["containers"]
    assert container["command"] == ["kube-scheduler", "--leader-elect=true", FLAG]
    assert container["volumeMounts"][-1] == {
        "name": filters.VOLUME, "mountPath": PATH, "readOnly": True,
    }  # fmt: skip
    assert made["spec"]["volumes"][-1]["hostPath"] == {"path": PATH, "type": "File"}
    assert made["metadata"]["labels"] == {"tier": "control-plane"}


def test_the_manifest_mounts_certificates_while_there_are_some(filters: types.ModuleType) -> None:
    once = filters.with_flags(manifest(), [FLAG], PATH, "content", CERTIFICATES)
    assert filters.with_flags(once, [FLAG], PATH, "content", CERTIFICATES) == once
    volume = {"path": CERTIFICATES, "type": "Directory"}
    assert once["spec"]["volumes"][-1]["hostPath"] == volume
    without = filters.with_flags(once, [FLAG], PATH, "content")
    assert filters.CERTIFICATES_VOLUME not in str(without)


def test_the_manifest_changes_only_with_the_files_content(filters: types.ModuleType) -> None:
    once = filters.with_flags(manifest(), [FLAG], PATH, "content")
    assert filters.with_flags(once, [FLAG], PATH, "content") == once
    assert filters.with_flags(once, [FLAG], PATH, "other") != once


def test_the_manifest_tells_whether_it_was_started_with_the_file(filters: types.ModuleType) -> None:
    made = filters.with_flags(manifest(), [FLAG], PATH, "content")
    assert filters.was_started_with(made, "content")
    assert not filters.was_started_with(made, "other")
    assert filters.was_started_with(manifest(), "content")


def test_a_manifest_without_a_scheduler_is_refused_by_name(filters: types.ModuleType) -> None:
    with pytest.raises(ValueError, match=r"spec\.containers: none has kube-scheduler"):
        filters.with_flags({"spec": {"containers": [{"command": ["etcd"]}]}}, [FLAG], PATH, "")


@pytest.mark.parametrize("words", [("--config=/site.yaml",), ("--config", "/site.yaml")])
def test_a_file_that_the_site_wrote_for_its_scheduler_is_not_hidden(
    filters: types.ModuleType, words: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match=r"command: .*--config"):
        filters.with_flags(manifest(*words), [FLAG], PATH, "")
    by_argument = manifest()
    by_argument["spec"]["containers"][0]["args"] = list(words)
    with pytest.raises(ValueError, match=r"command: .*--config"):
        filters.with_flags(by_argument, [FLAG], PATH, "")


def test_a_flag_that_was_changed_since_our_last_run_is_not_hidden(
    filters: types.ModuleType,
) -> None:
    made = filters.with_flags(manifest(), [FLAG], PATH, "content")
    made["spec"]["containers"][0]["command"][-1] = "--config=/srv/theirs.yaml"
    with pytest.raises(ValueError, match=r"reads --config=/srv/theirs[.]yaml, not"):
        filters.with_flags(made, [FLAG], PATH, "content")


def test_a_file_that_the_site_mounts_itself_is_mounted_once(filters: types.ModuleType) -> None:
    made = filters.with_flags(manifest(FLAG, mounted=PATH), [FLAG], PATH, "content")
    (container,) = made["spec"]["containers"]
    assert [one["mountPath"] for one in container["volumeMounts"]] == [PATH]


def test_another_file_at_the_path_of_ours_is_refused_by_name(filters: types.ModuleType) -> None:
    found = manifest(mounted=PATH)
    found["spec"]["volumes"][0]["hostPath"]["path"] = "/srv/scheduler.yaml"
    with pytest.raises(ValueError, match=r"volumeMounts: file mounts /srv/scheduler\.yaml at"):
        filters.with_flags(found, [FLAG], PATH, "")


@st.composite
def manifests(draw: st.DrawFn) -> dict[str, Any]:
    """Manifests with flags in any order, and with or without each of the optional parts."""
    words = draw(
        st.permutations(["--v=2", "--profiling=false", *draw(st.sampled_from([[], [FLAG]]))])
    )
    found = manifest(
        *words, mounted=draw(st.sampled_from([PATH, "/etc/kubernetes/scheduler.conf"]))
    )
    if draw(st.booleans()):
        found["metadata"]["annotations"] = draw(st.sampled_from([{}, {"kubeadm": "x"}]))
    if draw(st.booleans()):
        del found["spec"]["containers"][0]["volumeMounts"], found["spec"]["volumes"]
    return found


@given(found=manifests(), certificates=st.sampled_from(["", CERTIFICATES]))
def test_taking_our_part_out_gives_the_manifest_as_it_was(
    filters: types.ModuleType, found: dict[str, Any], certificates: str
) -> None:
    made = filters.with_flags(found, [FLAG], PATH, "content", certificates)
    assert filters.without_flags(made, found, FLAGS) == found


def test_later_changes_of_an_upgrade_stay_when_our_part_goes(filters: types.ModuleType) -> None:
    found = manifest(FLAG)
    made = filters.with_flags(found, [FLAG], PATH, "content", CERTIFICATES)
    made["spec"]["containers"][0]["image"] = "kube-scheduler:v1.35"
    made["spec"]["containers"][0]["command"].append("--v=4")
    expected = copy.deepcopy(found)
    expected["spec"]["containers"][0]["image"] = "kube-scheduler:v1.35"
    expected["spec"]["containers"][0]["command"] = [
        "kube-scheduler", "--leader-elect=true", "--v=4", FLAG,
    ]  # fmt: skip
    assert filters.without_flags(made, found, FLAGS) == expected


def test_a_manifest_that_an_upgrade_wrote_anew_is_left_as_it_is(filters: types.ModuleType) -> None:
    upgraded = manifest("--v=4")
    assert filters.without_flags(upgraded, manifest(), FLAGS) == upgraded
