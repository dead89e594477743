"""A scheduler of our own on a cluster whose own stays untouched: it comes, works, and goes."""

import collections.abc

import pytest

from tests.cluster import workloads
from tests.cluster.kubectl import wait_for
from tests.cluster.site import Site
from tests.testbed.artifacts import kubernetes

# By day tests/scheduling/test_own_scheduler.py runs two beside the cluster's.
pytestmark = [pytest.mark.testbed, pytest.mark.nightly]

OWN = (
    "--extra-vars=kube_scheduler_manager=own",
    f"--extra-vars=kube_scheduler_own_binary={kubernetes.CURRENT.bin / 'kube-scheduler'}",
)
SHARE = {workloads.CORE: "30", workloads.MEMORY: "8"}
UNIT = "gpustack-scheduler.service"


def theirs(site: Site, host: str = "cp1") -> str:
    """Return what the cluster's scheduler runs with, and since when."""
    # ExecStart has a time, too, which systemd forgets when it reads its units again.
    known = "--property=MainPID,ExecMainStartTimestampMonotonic"
    unit = site.on(host, "systemctl", "show", known, "kube-scheduler")
    unit += site.on(host, "systemctl", "cat", "kube-scheduler")
    folder = site.on(host, "sh", "-c", "cd /etc/kubernetes && find . -type f | xargs sha256sum")
    return unit + folder


@pytest.fixture(scope="module", autouse=True)
def found(site: Site) -> collections.abc.Iterator[str]:
    """Take the product away, and give what the cluster's scheduler runs with before ours comes."""
    site.playbook("uninstall", "--extra-vars=uninstall_confirmed=true")
    yield theirs(site)
    site.playbook("uninstall", *OWN, "--extra-vars=uninstall_confirmed=true")
    site.playbook("site")


def test_pods_with_its_name_get_cards_and_others_are_told(site: Site, found: str) -> None:
    site.playbook("site", *OWN)
    site.kubectl.apply(workloads.pod("share", SHARE, schedulerName="gpustack"))
    site.kubectl.apply(workloads.pod("plain", {}))
    site.running("share")
    site.running("plain")
    assert site.annotation("share", "tencent.com/predicate-gpu-idx-0") is not None
    with pytest.raises(Exception, match="must name gpustack"):
        site.kubectl.apply(workloads.pod("unnamed", SHARE))
    assert theirs(site) == found


def test_a_second_run_and_the_check_of_drift_find_nothing(site: Site) -> None:
    recap = site.playbook("site", *OWN)
    assert all(line.changed == 0 for line in recap.values()), recap
    site.playbook("drift", *OWN, "--check")
    site.playbook("verify", *OWN)


def test_a_killed_scheduler_is_back_and_leads(site: Site) -> None:
    site.on("cp1", "systemctl", "kill", "--signal=KILL", UNIT)
    site.kubectl.apply(workloads.pod("after", SHARE, schedulerName="gpustack"))
    site.running("after")


def test_uninstall_leaves_nothing_and_their_scheduler_alone(site: Site, found: str) -> None:
    site.kubectl.delete("pods", "--all")
    wait_for("no pod to be left", lambda: not site.kubectl.items("pods"))
    site.playbook("uninstall", *OWN, "--extra-vars=uninstall_confirmed=true")
    assert site.traces() == []
    left = site.kubectl.run(
        "get", "serviceaccounts,roles,leases,clusterrolebindings", "--output=name",
        "--namespace=kube-system",
    )  # fmt: skip
    assert "gpustack" not in left
    assert theirs(site) == found
