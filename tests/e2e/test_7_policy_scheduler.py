"""kube-scheduler 1.22 with GPUManager's Policy as it stands, calling the same extender."""

import collections.abc
import json
import pathlib

import pytest

from tests.cluster import opening, workloads
from tests.cluster.kubectl import is_running, scheduling_message, wait_for
from tests.cluster.site import Site
from tests.testbed.artifacts import kubernetes

pytestmark = pytest.mark.testbed

FITS = 8
POLICY = pathlib.Path(__file__).parent / "data" / "policy.json"


@pytest.fixture(scope="module", autouse=True)
def policy_scheduler(site: Site) -> collections.abc.Iterator[None]:
    """Let 1.22 schedule while this module runs."""
    site.playbook(
        "site",
        "--limit=cp1",
        "--extra-vars=kube_scheduler_form=policy",
        "--extra-vars=kube_scheduler_unit=kube-scheduler-1.22.service",
    )
    opening.testbed("scheduler", "--name", site.name, kubernetes.POLICY.minor)
    yield
    opening.testbed("scheduler", "--name", site.name, kubernetes.CURRENT.minor)


def test_the_installed_policy_is_the_seeds(site: Site) -> None:
    installed = json.loads(site.on("cp1", "cat", "/etc/kubernetes/scheduler-policy-config.json"))
    assert installed == json.loads(POLICY.read_text())


def test_the_old_scheduler_shares_cards_by_the_same_rules(site: Site) -> None:
    site.kubectl.apply(workloads.share_deployment(FITS + 1))

    def settled() -> bool:
        pods = site.kubectl.items("pods", "--selector=k8s-app=vcuda-test")
        refused = [scheduling_message(pod) for pod in pods if scheduling_message(pod)]
        return sum(map(is_running, pods)) == FITS and len(refused) == 1

    wait_for(f"{FITS} running and one refused", settled, seconds=180)
    units = ("kube-scheduler.service", "kube-scheduler-1.22.service")
    states = site.on("cp1", "sh", "-c", f"systemctl is-active {' '.join(units)}; true").split()
    assert states == ["inactive", "active"]


def test_the_old_scheduler_gives_whole_cards(site: Site) -> None:
    site.kubectl.apply(workloads.pod("whole", {workloads.CORE: "200", workloads.MEMORY: "60"}))
    site.running("whole")
    assert site.annotation("whole", "tencent.com/predicate-gpu-idx-0") == "0,1"
