"""A node's pods leave it by the Eviction API, and only a cordon of ours is taken back."""

import pathlib

import pytest

from tests.ansible.maintenance.drain_cluster import Cluster, pod
from tests.ansible.rendering import words

pytestmark = pytest.mark.long


def test_gpu_pods_leave_and_all_others_stay(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(
        pod("train"),
        pod("web", gpu=False),
        pod("daemon", owner="apps/v1 DaemonSet"),
        pod("mirror", owner="v1 Node", annotations={"kubernetes.io/config.mirror": "h"}),
        # what a tenant may write into a pod of his
        pod("forged", owner="v1 Node", annotations={"research/mirror": "h"}),
        pod("invented", owner="research/v1 DaemonSet"),
        pod("done", phase="Succeeded"),
    )
    with cluster.serving(tmp_path) as run:
        done = run("drain")
        assert done.returncode == 0, words(done)
        assert set(cluster.pods) == {"web", "daemon", "mirror", "done"}
        assert (cluster.cordoned, cluster.marked) == (True, True)
        again = run("drain")
        assert "changed=0" in again.stdout, words(again)
        restored = run("restore")
        assert restored.returncode == 0, words(restored)
        assert (cluster.cordoned, cluster.marked) == (False, False)
        assert "changed=0" in run("restore").stdout


@pytest.mark.parametrize(
    "capacity", [{}, pytest.param({"tencent.com/vcuda-core": "0"}, marks=pytest.mark.nightly)]
)
def test_a_node_that_offers_no_cards_stays_as_it_is(
    tmp_path: pathlib.Path, capacity: dict[str, str]
) -> None:
    cluster = Cluster(pod("web", gpu=False), status={"capacity": capacity})
    with cluster.serving(tmp_path) as run:
        done = run("drain")
    assert done.returncode == 0, words(done)
    assert cluster.cordoned == bool(capacity)  # an agent that is away may come back


@pytest.mark.nightly
def test_all_pods_leave_where_told(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(pod("train"), pod("web", gpu=False), pod("daemon", owner="apps/v1 DaemonSet"))
    with cluster.serving(tmp_path) as run:
        done = run("drain", pods="all")
    assert done.returncode == 0, words(done)
    assert set(cluster.pods) == {"daemon"}


@pytest.mark.nightly
def test_a_cordon_of_somebody_else_stays(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(pod("train"))
    cluster.cordon()
    with cluster.serving(tmp_path) as run:
        assert run("drain").returncode == 0
        assert cluster.pods == {}
        assert run("restore").returncode == 0
    assert (cluster.cordoned, cluster.marked) == (True, False)
    assert cluster.patches == []


@pytest.mark.nightly
def test_a_cordon_that_comes_between_is_not_ours(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(pod("train"))
    cluster.before_patch = cluster.cordon
    with cluster.serving(tmp_path) as run:
        assert run("drain").returncode == 0
        assert run("restore").returncode == 0
    assert (cluster.cordoned, cluster.marked) == (True, False)
    assert cluster.pods == {}


@pytest.mark.nightly
def test_a_node_that_its_kubelet_writes_meanwhile_is_cordoned(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(pod("train"))
    cluster.before_patch = cluster.touch
    with cluster.serving(tmp_path) as run:
        done = run("drain")
    assert done.returncode == 0, words(done)
    assert (cluster.cordoned, cluster.marked, cluster.pods) == (True, True, {})


@pytest.mark.nightly
def test_a_budget_is_asked_again_until_it_allows(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(pod("train"), pod("other"))
    cluster.refusals["train"] = 3
    with cluster.serving(tmp_path) as run:
        done = run("drain")
    assert done.returncode == 0, words(done)
    assert cluster.pods == {}
    assert cluster.tries == ["other", "train", "train", "train", "train"]


@pytest.mark.nightly
def test_a_pod_that_changes_while_it_is_evicted_is_asked_again(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(pod("train"))
    cluster.conflicts["train"] = 2
    with cluster.serving(tmp_path) as run:
        done = run("drain")
    assert done.returncode == 0, words(done)
    assert (cluster.tries, cluster.pods) == (["train"] * 3, {})


@pytest.mark.nightly
def test_a_pod_that_comes_back_to_the_node_is_named(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(pod("train"), pod("other"))
    cluster.returning.add("train")
    with cluster.serving(tmp_path) as run:
        done = run("drain", timeout_seconds=5)
    said = words(done)
    assert done.returncode != 0
    assert "research/train came back to node gpu1 although it is cordoned" in said
    assert "node.kubernetes.io/unschedulable" in said
    assert (cluster.cordoned, cluster.tries.count("other")) == (False, 1)


@pytest.mark.nightly
def test_a_budget_that_never_allows_is_named_and_the_node_given_back(
    tmp_path: pathlib.Path,
) -> None:
    cluster = Cluster(pod("train"))
    cluster.refusals["train"] = 10**6
    with cluster.serving(tmp_path) as run:
        done = run("drain", timeout_seconds=1)
    said = words(done)
    assert done.returncode != 0
    assert "research/train: Cannot evict pod" in said
    assert "The disruption budget trainers needs 2 healthy pods" in said
    assert "Node gpu1 was not drained, and takes pods again" in said
    assert (cluster.cordoned, cluster.marked) == (False, False)


@pytest.mark.nightly
def test_a_failed_drain_leaves_an_earlier_runs_cordon(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(pod("train"))
    cluster.cordon(ours=True)
    cluster.refusals["train"] = 10**6
    with cluster.serving(tmp_path) as run:
        done = run("drain", timeout_seconds=1)
    assert done.returncode != 0
    assert "is cordoned, as this run has found it" in words(done)
    assert (cluster.cordoned, cluster.marked) == (True, True)


@pytest.mark.nightly
def test_a_pod_that_does_not_go_is_named(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(pod("train"))
    cluster.stuck.add("train")
    with cluster.serving(tmp_path) as run:
        done = run("drain", timeout_seconds=1)
    assert done.returncode != 0
    assert "research/train didn't leave node gpu1 within 1 s" in words(done)
    assert not cluster.cordoned


@pytest.mark.nightly
def test_a_pod_that_nothing_makes_anew_is_refused_first(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(pod("bare", owner=None), pod("train"))
    with cluster.serving(tmp_path) as run:
        done = run("drain")
        assert done.returncode != 0
        assert "No controller would make research/bare anew" in words(done)
        assert (cluster.patches, cluster.tries) == ([], [])
        told = run("drain", evict_unowned=True)
        assert told.returncode == 0, words(told)
    assert cluster.pods == {}


@pytest.mark.nightly
def test_check_mode_names_the_pods_and_changes_nothing(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(pod("train"))
    with cluster.serving(tmp_path) as run:
        done = run("drain", "--check")
        assert done.returncode == 0, words(done)
        assert "Node gpu1 would be drained of research/train" in words(done)
        cluster.cordon(ours=True)
        restored = run("restore", "--check")
    assert restored.returncode == 0, words(restored)
    assert "changed=1" in restored.stdout
    assert (cluster.patches, cluster.tries) == ([], [])
    assert cluster.marked


@pytest.mark.nightly
def test_a_node_that_the_cluster_lacks_is_named(tmp_path: pathlib.Path) -> None:
    cluster = Cluster()
    cluster.objects.clear()
    with cluster.serving(tmp_path) as run:
        done = run("restore")
        assert done.returncode != 0
        assert "The cluster has no node gpu1: set gpustack_agent_node_name of gpu1" in words(done)
        told = run("drain", require_node=False)
    assert told.returncode == 0, words(told)
    assert "changed=0" in told.stdout
