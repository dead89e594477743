"""A manifest that kubeadm itself wrote with our patch needs no more of us, and comes clean."""

import types

import pytest

from tests.ansible import plugins
from tests.ansible.kube_scheduler.kubeadm.kubeadm import merged, recorded

PATH = "/etc/kubernetes/scheduler-config.yaml"
FLAG = f"--config={PATH}"
# as it was recorded for
OURS = ([FLAG], PATH, "content\n", "/etc/gpustack/pki/scheduler")


@pytest.fixture(scope="module")
def filters() -> types.ModuleType:
    """Load the role's plugin as Ansible does: by its path."""
    return plugins.load("roles/kube_scheduler/filter_plugins/kube_scheduler_static_pod.py")


def test_the_patch_is_the_one_that_kubeadm_was_given(filters: types.ModuleType) -> None:
    assert filters.patch(recorded("manifest"), *OURS) == recorded("patch")


def test_a_patched_manifest_stays_as_kubeadm_wrote_it(filters: types.ModuleType) -> None:
    assert filters.with_flags(recorded("patched"), *OURS) == recorded("patched")


def test_a_patched_scheduler_gets_the_words_that_the_role_writes(
    filters: types.ModuleType,
) -> None:
    by_role = filters.with_flags(recorded("manifest"), *OURS)
    one, other = (
        filters.scheduler_container(made["spec"]) for made in (by_role, recorded("patched"))
    )
    assert one["command"] == [*other["command"], *other["args"]]
    for key in ("mountPath", "name"):
        assert {each[key] for each in one["volumeMounts"]} == {
            each[key] for each in other["volumeMounts"]
        }
    assert by_role["metadata"] == recorded("patched")["metadata"]


def test_a_patched_manifest_without_our_part_is_kubeadms_own(filters: types.ModuleType) -> None:
    assert filters.without_flags(recorded("patched"), recorded("manifest"), [FLAG]) == (
        recorded("manifest")
    )


def test_a_patched_manifest_follows_a_file_that_changed(filters: types.ModuleType) -> None:
    made = filters.with_flags(recorded("patched"), [FLAG], PATH, "other", OURS[3])
    assert made["spec"] == recorded("patched")["spec"]
    assert filters.was_started_with(made, "other")


def test_the_tests_own_merge_gives_what_kubeadm_wrote() -> None:
    assert merged(recorded("manifest"), recorded("patch")) == recorded("patched")
