"""Kubernetes' own gangs (PodGroup, gate `GenericWorkload`): what happens until gpustack knows them.

The scheduler asks about one member after another, and tells the extender of none that it assumes.
"""

import collections.abc
import datetime
import itertools
import json

import pytest

from gpustack.adapters.kube import KubeClient
from tests.cluster.kubectl import Kubectl, KubectlError, wait_for
from tests.control_plane import extending, fleet, identity, plane
from tests.scheduling.cluster import Cluster, container, quota
from tests.testbed.artifacts import kubernetes

pytestmark = [
    pytest.mark.testbed,
    pytest.mark.skipif(
        kubernetes.CURRENT is kubernetes.OLDER, reason="1.34 has no gate GenericWorkload"
    ),
]

GATE = "--feature-gates=GenericWorkload=true"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
CARDS = 8
REFUSALS = 5
PAUSE_SECONDS = 0.9  # a second, less what two decisions take
_WAIT_SECONDS = 30.0
SHARE = container("main", 60, 32)
TENANT = "limited"


@pytest.fixture(scope="module")
def ganged(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[tuple[Cluster, extending.RunningExtender]]:
    """Run a control plane with PodGroups and one node of eight cards, extender and scheduler."""
    more = (GATE, "--runtime-config=scheduling.k8s.io/v1beta1=true")
    with plane.start(tmp_path_factory.mktemp("gangs"), *more) as control:
        client = KubeClient.from_kubeconfig(control.admin)
        fleet.fill(client, [0], pods_each=0)
        client.post("/api/v1/namespaces", {"metadata": {"name": TENANT}})
        limit = {TENANT: {"quota": {"A100": 1.2}, "pool": []}}
        client.post("/api/v1/namespaces/kube-system/configmaps", quota(limit))
        user = identity.extender_kubeconfig(control)
        kubectl = Kubectl(binary=kubernetes.CURRENT.bin / "kubectl", kubeconfig=control.admin)
        with (
            extending.start(control.folder, user, secured=True) as extender,
            control.scheduler(extender.scheduler_configuration(), "kube-scheduler", GATE),
        ):
            yield Cluster(control=control, client=client, kubectl=kubectl), extender


@pytest.fixture
def cluster(
    ganged: tuple[Cluster, extending.RunningExtender],
) -> collections.abc.Iterator[Cluster]:
    """Give the cluster, and empty it afterwards."""
    yield ganged[0]
    ganged[0].delete_pods()


def create_gang(cluster: Cluster, name: str, members: int, namespace: str = "default") -> list[str]:
    """Create a gang of pods that ask for 60 hundredths of a card; return their names."""
    policy = {"gang": {"minCount": members}}
    body = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}}
    cluster.client.post(GROUPS.replace("default", namespace), body)
    names = [f"{name}-{at}" for at in range(members)]
    group = {"podGroupName": name}
    for each in names:
        cluster.create(each, SHARE, namespace=namespace, schedulingGroup=group)
    return names


def test_a_gang_whose_sums_fit_and_cards_do_not_is_bound_in_part(cluster: Cluster) -> None:
    names = create_gang(cluster, "larger", CARDS + 1)

    def waiting() -> list[str]:
        left = [each for each in names if "nodeName" not in cluster.pod(each)["spec"]]
        return left if len(left) == 1 else []

    (last,) = wait_for("all members but one to be bound", waiting, seconds=_WAIT_SECONDS)
    assert "InsufficientCore: no GPU has enough free vcuda-core" in cluster.refused(last)


def test_a_gang_beyond_its_quota_leaves_that_to_others(cluster: Cluster) -> None:
    """Two of its members pass; the scheduler then refuses them all, and tells us nothing."""
    for each in create_gang(cluster, "beyond", 3, TENANT):
        cluster.refused(each, TENANT)
    cluster.create("alone", SHARE, namespace=TENANT)
    wait_for(
        "the gang's claims to end",
        lambda: cluster.pod("alone", TENANT)["spec"].get("nodeName"),
        seconds=4 * _WAIT_SECONDS,
    )


def test_a_member_whose_binds_are_refused_is_refused_once_a_second(
    cluster: Cluster, ganged: tuple[Cluster, extending.RunningExtender]
) -> None:
    """The API server refuses them: the extender may not bind any more."""
    lose_right_to_bind(cluster)
    create_gang(cluster, "refused", 1)

    def refused() -> list[float]:
        times = refusals(ganged[1], "refused-0")
        return times if len(times) >= REFUSALS else []

    # The first is answered at once, and the scheduler asks again at once.
    times = wait_for("binds to be refused", refused, seconds=_WAIT_SECONDS)[1:]
    assert min(after - before for before, after in itertools.pairwise(times)) >= PAUSE_SECONDS


def lose_right_to_bind(cluster: Cluster) -> None:
    """Take the right from the extender's role, and wait until the API server keeps to it."""
    kubectl, (role,) = (
        cluster.kubectl,
        (each for each in identity.rbac_objects() if each["kind"] == "ClusterRole"),
    )
    role["rules"] = [each for each in role["rules"] if each["resources"] != ["pods/binding"]]
    kubectl.run("replace", "-f", "-", stdin=json.dumps(role))
    account = f"--as=system:serviceaccount:kube-system:{role['metadata']['name']}"

    def lost() -> bool:
        try:
            kubectl.run("auth", "can-i", "create", "pods", "--subresource=binding", account)
        except KubectlError:
            return True
        return False

    wait_for("the extender to have lost its right", lost, seconds=_WAIT_SECONDS)


def refusals(extender: extending.RunningExtender, pod: str) -> list[float]:
    """Return when a pod's binds were refused, Unix seconds, oldest first."""
    status, body = extender.get("/v1/decisions")
    assert status == 200, body
    asked = [
        each
        for each in json.loads(body)["decisions"]
        if (each["name"], each["verb"]) == (pod, "bind")
    ]
    assert {each["outcome"] for each in asked} <= {"WriteFailed"}
    return [datetime.datetime.fromisoformat(each["time"]).timestamp() for each in reversed(asked)]
