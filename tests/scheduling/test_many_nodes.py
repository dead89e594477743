"""kube-scheduler 1.34 and more nodes than a list of scores names one by one."""

import collections.abc

import pytest

from gpustack.adapters.kube import KubeClient
from tests.cluster.kubectl import Kubectl
from tests.control_plane import extending, fleet, identity, plane
from tests.scheduling.cluster import Cluster, container
from tests.testbed.artifacts import kubernetes

pytestmark = pytest.mark.testbed

NODES = 120
SHARE = container("main", 30, 32)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[Cluster]:
    """Run a control plane with nodes that are all alike, extender and scheduler."""
    with plane.start(tmp_path_factory.mktemp("many")) as control:
        client = KubeClient.from_kubeconfig(control.admin)
        fleet.fill(client, range(NODES), pods_each=0)
        user = identity.extender_kubeconfig(control)
        kubectl = Kubectl(binary=kubernetes.CURRENT.bin / "kubectl", kubeconfig=control.admin)
        with (
            extending.start(control.folder, user, secured=True) as extender,
            control.scheduler(extender.scheduler_configuration(), "kube-scheduler"),
        ):
            yield Cluster(control=control, client=client, kubectl=kubectl)


def test_the_node_that_is_better_than_all_the_others_is_taken(many: Cluster) -> None:
    many.create("first", SHARE)
    node, cards = many.bound("first")  # no node is better than another yet
    for name in ("second", "third"):
        many.create(name, SHARE)
        assert many.bound(name) == (node, cards)
    many.create("elsewhere", SHARE, annotations={fleet.KEYS.gpu_placement: "spread"})
    assert many.bound("elsewhere")[0] != node
