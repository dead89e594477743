"""Pods that kube-scheduler lets wait for their volumes: it counts them on a node already."""

import collections.abc

import pytest

from tests.cluster.kubectl import wait_for
from tests.control_plane import extending
from tests.control_plane.fleet import KEYS
from tests.scheduling.cluster import Cluster, container

pytestmark = pytest.mark.testbed

TENANT = "volumes"
NOBODY = "provisioned-by-nobody"
CARDS = 8  # of the model that the tenant may have a card and a half of
HALF = container("main", 50, 32)
A100 = {f"{KEYS.domain}/gpu-model": "A100"}
_SELECTED = "volume.kubernetes.io/selected-node"  # the scheduler waits for the volume then


@pytest.fixture(scope="module")
def scheduled(
    whole_cluster: Cluster, extender: extending.RunningExtender
) -> collections.abc.Iterator[Cluster]:
    """Run the scheduler, beside a class of volumes that come when somebody makes them."""
    body = {
        "metadata": {"name": NOBODY},
        "provisioner": "example.org/nobody",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    whole_cluster.client.post("/apis/storage.k8s.io/v1/storageclasses", body)
    with whole_cluster.control.scheduler(extender.scheduler_configuration(), "claims-scheduler"):
        yield whole_cluster


def create(cluster: Cluster, name: str) -> None:
    """Create a tenant's pod of half a card with a volume of its own."""
    wanted = {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Mi"}},
            "storageClassName": NOBODY,
        },
    }
    cluster.client.post(f"/api/v1/namespaces/{TENANT}/persistentvolumeclaims", wanted)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    cluster.create(name, HALF, namespace=TENANT, volumes=[volume])


def waits(cluster: Cluster, name: str) -> bool:
    """Say whether the scheduler waits for a pod's volume."""
    path = f"/api/v1/namespaces/{TENANT}/persistentvolumeclaims/{name}"
    return _SELECTED in (cluster.client.get(path)["metadata"].get("annotations") or {})


def provide(cluster: Cluster, name: str) -> None:
    """Make a pod's volume, and bind it as the controller of volumes does."""
    path = f"/api/v1/namespaces/{TENANT}/persistentvolumeclaims/{name}"
    asked = cluster.client.get(path)
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Mi"},
        "hostPath": {"path": "/none"},
        "storageClassName": NOBODY,
        "claimRef": {
            "kind": "PersistentVolumeClaim",
            "namespace": TENANT,
            "name": name,
            "uid": asked["metadata"]["uid"],
        },
    }
    cluster.client.post("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    cluster.client.patch(path, {"metadata": {"annotations": done}, "spec": {"volumeName": name}})
    cluster.client.patch(f"{path}/status", {"status": {"phase": "Bound"}})


def test_pods_that_wait_for_volumes_take_no_more_than_their_quota(cluster: Cluster) -> None:
    names = [f"endless-{at}" for at in range(6)]
    for name in names:
        create(cluster, name)
    waiting = wait_for(
        "pods to wait for volumes",
        lambda: found if len(found := {n for n in names if waits(cluster, n)}) >= 3 else set(),
    )
    for name in sorted(set(names) - waiting):
        assert "QuotaExceeded" in cluster.refused(name, TENANT)
    assert {name for name in names if waits(cluster, name)} == waiting
    # Half cards of three pods lie on two cards; all others are other tenants'.
    others = [f"other-{at}" for at in range(CARDS - 2)]
    for name in others:
        cluster.create(name, container("main", 100), annotations=A100)
    assert {cluster.bound(name)[0] for name in others} == {"switched", "meshed"}


def test_a_pod_is_bound_when_its_volume_comes_and_counts_once(cluster: Cluster) -> None:
    names = ["first", "second", "third"]
    for name in names:
        create(cluster, name)
    wait_for("pods to wait for volumes", lambda: all(waits(cluster, name) for name in names))
    provide(cluster, "first")
    assert cluster.bound("first", TENANT)[0] in {"switched", "meshed"}
    create(cluster, "fourth")
    assert "QuotaExceeded" in cluster.refused("fourth", TENANT)
    assert "holds 1.5 of its 1.5 A100 cards" in cluster.described("fourth", TENANT)
