"""One control plane for the run; each module brings its scheduler."""

import collections.abc
import pathlib

import pytest

from gpustack.adapters.kube import KubeClient
from tests.cluster.kubectl import Kubectl
from tests.control_plane import extending, identity, plane
from tests.scheduling.cluster import NODES, Cluster, quota
from tests.testbed.artifacts import kubernetes

LIMITED = {
    "team": {"quota": {"A100": 1.5}, "pool": ["training"]},
    "small-team": {"quota": {"T4": 2}, "pool": ["inference"]},
    "volumes": {"quota": {"A100": 1.5}, "pool": ["training"]},
}


@pytest.fixture(scope="session")
def whole_cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[Cluster]:
    """Run a control plane with three GPU nodes, three limited namespaces and two priorities."""
    with plane.start(tmp_path_factory.mktemp("plane")) as control:
        client = KubeClient.from_kubeconfig(control.admin)
        for node in NODES:
            client.post("/api/v1/nodes", node)
        for name in LIMITED:
            client.post("/api/v1/namespaces", {"metadata": {"name": name}})
        client.post("/api/v1/namespaces/kube-system/configmaps", quota(LIMITED))
        for name, value in (("low", -10), ("high", 1000)):
            client.post(
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {"metadata": {"name": name}, "value": value},
            )
        # The extender and its schedulers work under the role's policies.
        identity.lay_policies(control, tmp_path_factory.mktemp("rendered"))
        binary = kubernetes.CURRENT.bin / "kubectl"
        yield Cluster(
            control=control,
            client=client,
            kubectl=Kubectl(binary=binary, kubeconfig=control.admin),
        )


@pytest.fixture(scope="session")
def identity_file(whole_cluster: Cluster) -> pathlib.Path:
    """Return the extender's kubeconfig: the role's rights and no other."""
    return identity.extender_kubeconfig(whole_cluster.control)


@pytest.fixture(scope="session")
def extender(
    whole_cluster: Cluster, identity_file: pathlib.Path
) -> collections.abc.Iterator[extending.RunningExtender]:
    """Run the extender as the roles set it up for a scheduler of today: with TLS."""
    folder = whole_cluster.control.folder
    with extending.start(folder, identity_file, secured=True) as running:
        yield running
    assert_nothing_was_forbidden(running)


@pytest.fixture
def cluster(scheduled: Cluster) -> collections.abc.Iterator[Cluster]:
    """Give the cluster with the module's scheduler (`scheduled`), and empty it afterwards."""
    yield scheduled
    scheduled.delete_pods()


def assert_nothing_was_forbidden(running: extending.RunningExtender) -> None:
    """Fail when the extender asked for something that its role does not allow."""
    lines = running.process.log.read_text().splitlines()
    assert [line for line in lines if "forbidden" in line.lower()] == []
