"""A host leaves the site as it came, and joins it again."""

import pytest

from tests.cluster import workloads
from tests.cluster.kubectl import annotations, conditions
from tests.upgrades.fleet import Fleet

pytestmark = [pytest.mark.testbed, pytest.mark.nightly]

HOST = "gpu3"


def test_a_removed_host_is_as_before_and_can_come_again(fleet: Fleet) -> None:
    fleet.playbook("site")
    container = workloads.container(workloads.SHARE, ["cuda-workload", "--hold"])
    pinned = workloads.deployment("pinned", 2, container)
    pinned["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": HOST}
    fleet.kubectl.apply(pinned)
    for pod in fleet.kubectl.items("pods", "--selector=k8s-app=pinned"):
        fleet.running(pod["metadata"]["name"])
    removal = ("remove_host", f"--extra-vars=remove_host={HOST}")

    recaps = fleet.playbook(*removal)
    assert recaps["gpu1"].changed == recaps["gpu2"].changed == 0
    changes = fleet.changes_since_before(HOST)
    assert not changes, "\n".join(changes)  # pytest shortens a list
    node = fleet.kubectl.get("node", HOST)
    assert "unschedulable" not in node["spec"]
    assert [key for key in node["status"]["capacity"] if key.startswith("tencent.com/")] == []
    assert [key for key in annotations(node) if key.startswith("tencent.com/")] == []
    assert "UnhealthyCards" not in conditions(node)
    assert not any(recap.changed for recap in fleet.playbook(*removal).values())

    fleet.playbook("site")
    for pod in fleet.kubectl.items("pods", "--selector=k8s-app=pinned"):
        fleet.running(pod["metadata"]["name"])
    fleet.kubectl.delete("deployment/pinned")
