"""kube-scheduler 1.22 with GPUManager's Policy, calling `predicates` with whole nodes."""

import collections.abc
import json
import pathlib

import pytest

from tests.cluster.kubectl import annotations
from tests.control_plane import extending
from tests.control_plane.fleet import KEYS
from tests.scheduling.cluster import Cluster, container
from tests.scheduling.conftest import assert_nothing_was_forbidden

pytestmark = pytest.mark.testbed

POLICY = pathlib.Path(__file__).parents[1] / "e2e" / "data" / "policy.json"


@pytest.fixture(scope="module")
def scheduled(
    whole_cluster: Cluster, identity_file: pathlib.Path
) -> collections.abc.Iterator[Cluster]:
    """Run the scheduler and an extender of its own, at the address that the Policy gets."""
    control = whole_cluster.control
    policy = json.loads(POLICY.read_text())
    with extending.start(control.folder, identity_file) as extender:
        policy["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{extender.port}/scheduler"
        with control.policy_scheduler(policy, "kube-scheduler-1.22"):
            yield whole_cluster
    assert_nothing_was_forbidden(extender)


def test_shares_and_whole_cards_are_reserved_before_they_are_bound(cluster: Cluster) -> None:
    cluster.create("share", container("main", 50, 32))
    cluster.create("whole", container("main", 200))
    node, cards = cluster.bound("share")
    assert (node, cards) == ("small", {"idx-0": "0"})
    node, cards = cluster.bound("whole")
    assert len(cards["idx-0"].split(",")) == 2
    found = annotations(cluster.pod("whole"))
    assert found[f"{KEYS.domain}/predicate-node"] == node


def test_a_sidecar_that_the_scheduler_does_not_know_holds_its_card(cluster: Cluster) -> None:
    sidecar = container("proxy", 60, 16, restartPolicy="Always")
    cluster.create(
        "with-sidecar",
        container("main", 60, 16),
        {"name": "helper", "image": "none"},
        container("late", 30, 16),
        initContainers=[sidecar],
    )
    _, cards = cluster.bound("with-sidecar")
    assert cards.keys() == {"idx-0", "idx-2", "idx-init-0"}
    assert cards["idx-0"] != cards["idx-init-0"]


def test_models_topology_and_quota_refuse_by_name(cluster: Cluster) -> None:
    cluster.create("h100", container("main", 100), annotations={f"{KEYS.domain}/gpu-model": "H100"})
    assert "WrongModel" in cluster.refused("h100")
    demand = {f"{KEYS.domain}/gpu-topology": "nvlink"}
    cluster.create("linked", container("main", 300), annotations=demand)
    assert cluster.bound("linked")[0] == "meshed"
    cluster.create("many", container("main", 200), namespace="team")
    words = cluster.refused("many", "team")
    assert "QuotaExceeded" in words
    assert "PoolForbidden" in words


def test_a_refused_pod_runs_as_soon_as_a_card_is_free(cluster: Cluster) -> None:
    assert cluster.next_in_line() == "meshed"


def test_a_reservation_whose_pod_is_gone_holds_no_card(cluster: Cluster) -> None:
    # The volume keeps the scheduler from binding the pod; the extender reserves cards for it.
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
    cluster.create("unbindable", container("main", 400), volumes=[claim])
    cluster.create("after", container("main", 400))
    assert cluster.bound("after")[0] in {"meshed", "switched"}
    cluster.kubectl.run("delete", "pod", "unbindable", "after", "--force")
    for name in ("third", "fourth"):
        cluster.create(name, container("main", 400))
    nodes = {cluster.bound(name)[0] for name in ("third", "fourth")}
    assert nodes == {"meshed", "switched"}
