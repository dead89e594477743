"""kube-scheduler 1.34: filter, prioritize, bind and preempt over TLS with client certificates."""

import collections.abc
import pathlib
import re

import pytest

from tests.cluster.kubectl import annotations, wait_for
from tests.control_plane import extending
from tests.control_plane.fleet import KEYS
from tests.scheduling.cluster import Cluster, container
from tests.testbed.artifacts import kubernetes

pytestmark = pytest.mark.testbed

DATA = pathlib.Path(__file__).parent / "data"
HALF = container("main", 50, 32)


@pytest.fixture(scope="module")
def scheduled(
    whole_cluster: Cluster, extender: extending.RunningExtender
) -> collections.abc.Iterator[Cluster]:
    """Run the scheduler."""
    with whole_cluster.control.scheduler(extender.scheduler_configuration(), "kube-scheduler"):
        yield whole_cluster


def test_shares_fill_one_card_before_another_is_broken(cluster: Cluster) -> None:
    for name in ("one", "two"):
        cluster.create(name, HALF)
    places = {cluster.bound(name)[0] for name in ("one", "two")}
    assert places == {"small"}
    assert {cluster.bound(name)[1]["idx-0"] for name in ("one", "two")} == {"0"}


def test_whole_cards_come_from_one_switch(cluster: Cluster) -> None:
    selector = {"kubernetes.io/hostname": "switched"}
    cluster.create("first", container("main", 100), nodeSelector=selector)
    # Binding is asynchronous: a pod that came later may be bound first.
    assert cluster.bound("first") == ("switched", {"idx-0": "0"})
    cluster.create("pair", container("main", 200), nodeSelector=selector)
    assert cluster.bound("pair") == ("switched", {"idx-0": "2,3"})


def test_the_decision_stands_on_the_pod_when_it_is_bound(cluster: Cluster) -> None:
    cluster.create("decided", HALF)
    node, _ = cluster.bound("decided")
    found = annotations(cluster.pod("decided"))
    assert found[f"{KEYS.domain}/predicate-node"] == node
    assert found[f"{KEYS.domain}/gpu-assigned"] == "false"
    assert found[f"{KEYS.domain}/predicate-gpu-uuid-0"] == f"GPU-{node}-0"
    assert int(found[f"{KEYS.domain}/predicate-time"]) > 0


def test_every_container_of_a_pod_gets_its_cards(cluster: Cluster) -> None:
    helper = {"name": "helper", "image": "none"}
    cluster.create("several", container("a", 200), helper, container("b", 50, 32))
    _, cards = cluster.bound("several")
    assert cards.keys() == {"idx-0", "idx-2"}
    assert set(cards["idx-0"].split(",")).isdisjoint({cards["idx-2"]})


def test_a_sidecar_holds_a_card_of_its_own(cluster: Cluster) -> None:
    sidecar = container("proxy", 60, 16, restartPolicy="Always")
    cluster.create("with-sidecar", container("main", 60, 16), initContainers=[sidecar])
    _, cards = cluster.bound("with-sidecar")
    assert sorted(cards.values()) == ["0", "1"]
    assert cards.keys() == {"idx-0", "idx-init-0"}


def test_a_model_is_kept_to_and_a_missing_model_is_reported(cluster: Cluster) -> None:
    cluster.create("wants-t4", HALF, annotations={f"{KEYS.domain}/gpu-model": "T4"})
    assert cluster.bound("wants-t4")[0] == "small"
    cluster.create("wants-h100", HALF, annotations={f"{KEYS.domain}/gpu-model": "H100"})
    assert "3 WrongModel" in cluster.refused("wants-h100")


def test_a_topology_demand_is_met_or_refused(cluster: Cluster) -> None:
    demand = {f"{KEYS.domain}/gpu-topology": "nvlink"}
    cluster.create("linked", container("main", 400), annotations=demand)
    assert cluster.bound("linked")[0] == "meshed"
    cluster.create("linked-too", container("main", 200), annotations=demand)
    words = cluster.refused("linked-too")
    # the totals of the full node refuse the pod already
    assert "1 Insufficient tencent.com/vcuda-core" in words
    assert "2 TopologyUnmet: the free GPUs are not joined as the pod demands" in words


def test_a_quota_counts_models_and_pools(cluster: Cluster) -> None:
    cluster.create("first", container("main", 100), namespace="team")
    assert cluster.bound("first", "team")[0] in {"switched", "meshed"}
    cluster.create("second", container("main", 100), namespace="team")
    words = cluster.refused("second", "team")
    assert "2 QuotaExceeded" in words
    assert "1 PoolForbidden" in words
    cluster.create("half", HALF, namespace="team")
    assert cluster.bound("half", "team")[0] in {"switched", "meshed"}


def test_a_pod_in_line_runs_as_soon_as_a_card_is_free(cluster: Cluster) -> None:
    assert cluster.next_in_line() == "meshed"


def test_a_gated_pod_takes_nothing_until_its_gate_is_lifted(cluster: Cluster) -> None:
    gates = [{"name": "example.org/wait"}]
    cluster.create("gated", container("main", 400), schedulingGates=gates)
    cluster.create("other", container("main", 400))
    assert cluster.bound("other")
    assert annotations(cluster.pod("gated")) == {}


def test_preemption_ends_the_pods_whose_cards_are_needed(cluster: Cluster) -> None:
    selector = {"kubernetes.io/hostname": "small"}
    for name in ("left", "right"):
        cluster.create(
            name, container("main", 90, 32), nodeSelector=selector, priorityClassName="low"
        )
        cluster.bound(name)
    cluster.create(
        "urgent", container("main", 100), nodeSelector=selector, priorityClassName="high"
    )
    node, cards = cluster.bound("urgent")
    assert node == "small"
    survivors = [name for name in ("left", "right") if exists(cluster, name)]
    assert len(survivors) == 1
    assert cards["idx-0"] != cluster.bound(survivors[0])[1]["idx-0"]


def test_preemption_waits_for_no_pod_that_lets_itself_years_to_end(cluster: Cluster) -> None:
    selector, years = {"kubernetes.io/hostname": "small"}, 3_155_760_000
    cluster.create(
        "rude",
        container("main", 90, 32),
        nodeSelector=selector,
        priorityClassName="low",
        terminationGracePeriodSeconds=years,
    )
    cluster.bound("rude")
    cluster.create("polite", container("main", 90, 32), nodeSelector=selector)
    cluster.bound("polite")
    cluster.create(
        "urgent", container("main", 100), nodeSelector=selector, priorityClassName="high"
    )
    assert cluster.bound("urgent")[0] == "small"


def exists(cluster: Cluster, name: str) -> bool:
    return name in cluster.kubectl.run("get", "pods", "-o", "name")


@pytest.mark.skipif(kubernetes.CURRENT is kubernetes.OLDER, reason="1.34 has no batching")
def test_a_scheduler_with_an_extender_batches_no_pods(cluster: Cluster) -> None:
    log = (cluster.control.folder / "kube-scheduler.log").read_text()
    assert "Disabling signatures for profile because it has extenders configured" in log


def test_describe_tells_people_why_a_pod_waits(cluster: Cluster) -> None:
    selector = {"kubernetes.io/hostname": "small"}
    for name in ("a", "b"):
        cluster.create(name, container("main", 60, 16), nodeSelector=selector)
        cluster.bound(name)
    cluster.create("waits", HALF, annotations={f"{KEYS.domain}/gpu-model": "T4"})
    cluster.refused("waits")

    def events() -> set[str]:
        found = said(cluster.described("waits"))
        return found if len({line.split()[2] for line in found}) == 2 else set()

    shown = wait_for("the scheduler's event and ours", events)
    assert shown == set((DATA / "describe.txt").read_text().splitlines())


def said(described: str) -> set[str]:
    """Return the events without their ages and the columns' width, which differ by the run."""
    # Kubernetes 1.34 says it of dynamic resources also where none is asked for.
    described = described.replace(" no new claims to deallocate,", "")
    lines = described.partition("Events:")[2].strip().splitlines()
    events = (re.sub(r"\s{2,}", "  ", line.strip()) for line in lines)
    return {re.sub(AGE, "  ", line) for line in events if line.startswith(("Warning", "Normal"))}


AGE = r"  (<unknown>|\d+s( \(x\d+ over \d+s\))?)  "
