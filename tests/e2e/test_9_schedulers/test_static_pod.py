"""A scheduler that is a static pod, as kubeadm makes it: the product comes, works, and goes."""

import collections.abc
import pathlib

import pytest
import yaml

from tests.cluster import rollout, static_pod, workloads
from tests.cluster.drift import differences
from tests.cluster.site import Site
from tests.testbed import description

# By day tests/ansible/kube_scheduler runs the role beside a static pod of its own.
pytestmark = [pytest.mark.testbed, pytest.mark.nightly]

STATIC = "--extra-vars=kube_scheduler_manager=static_pod"
ON_CP1 = ("--limit=cp1", STATIC)
THE_ROLE = (*ON_CP1, "--tags=kube_scheduler")


@pytest.fixture(scope="module", autouse=True)
def found(site: Site) -> collections.abc.Iterator[str]:
    """Let a static pod schedule while this module runs; give its manifest as it was found."""
    testbed = description.load(site.name)
    manifest = static_pod.start(testbed)
    yield manifest
    static_pod.stop(testbed)


def schedulers(site: Site) -> list[str]:
    return site.on("cp1", "pgrep", "--list-full", "--exact", "kube-scheduler").splitlines()


def test_the_playbook_ends_with_a_new_scheduler_that_gives_cards(site: Site) -> None:
    before = schedulers(site)
    site.playbook("site", *ON_CP1)
    [after] = schedulers(site)
    assert after not in before
    assert "--config=/etc/kubernetes/scheduler-config.yaml" in after
    site.kubectl.apply(workloads.pod("share", {workloads.CORE: "30", workloads.MEMORY: "8"}))
    site.running("share")
    assert site.annotation("share", "tencent.com/predicate-gpu-idx-0") is not None


def test_a_second_run_leaves_the_static_pod_alone(site: Site) -> None:
    before = schedulers(site)
    recap = site.playbook("site", *THE_ROLE)
    assert recap["cp1"].changed == 0
    assert schedulers(site) == before


def test_another_setting_of_the_scheduler_restarts_the_static_pod(site: Site) -> None:
    before = schedulers(site)
    site.playbook("site", *THE_ROLE, "--extra-vars=kube_scheduler_http_timeout_seconds=11")
    [after] = schedulers(site)
    assert after not in before


def test_what_the_static_pods_program_refuses_changes_nothing(site: Site) -> None:
    before, running = site.on("cp1", "cat", static_pod.MANIFEST), schedulers(site)
    static_pod.lay_broken_certificates(description.load(site.name))
    with pytest.raises(rollout.PlaybookError, match="Nothing was changed: it runs on"):
        site.playbook(
            "site", *THE_ROLE, f"--extra-vars=kube_scheduler_certificates={static_pod.BROKEN}"
        )
    assert site.on("cp1", "cat", static_pod.MANIFEST) == before
    assert schedulers(site) == running


def test_drift_finds_a_manifest_that_kubeadm_wrote_anew(
    site: Site, found: str, tmp_path: pathlib.Path
) -> None:
    site.playbook("site", *THE_ROLE)  # with the settings that drift.yml is told, too
    ours = site.on("cp1", "cat", static_pod.MANIFEST)
    assert differences(site, tmp_path, STATIC) == {}
    site.on("cp1", "sh", "-c", f"cat > {static_pod.MANIFEST} <<'END'\n{found}END")
    # The manifest, and what is kept of it as it was found.
    assert differences(site, tmp_path, STATIC) == {"cp1": ["kube_scheduler"] * 2}
    site.playbook("site", *THE_ROLE)
    assert site.on("cp1", "cat", static_pod.MANIFEST) == ours


def test_uninstall_leaves_the_manifest_as_it_was_found_and_nothing_else(
    site: Site, found: str
) -> None:
    site.playbook("uninstall", STATIC, "--extra-vars=uninstall_confirmed=true")
    assert site.on("cp1", "cat", static_pod.MANIFEST) == found
    [scheduler] = schedulers(site)
    assert "--config" not in scheduler
    assert site.traces() == []
    assert yaml.safe_load(site.on("cp1", "cat", "/etc/kubernetes/scheduler-config.yaml")) == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf"},
        "leaderElection": {"leaderElect": True},
    }


def test_a_site_that_was_uninstalled_is_installed_again(site: Site) -> None:
    site.playbook("site", STATIC)
    recap = site.playbook("verify", STATIC)
    assert all(line.failed == 0 and line.changed == 0 for line in recap.values())
